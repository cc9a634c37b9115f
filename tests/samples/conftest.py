"""Import path of the samples, which are scripts that import modules of their own folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "samples"))
