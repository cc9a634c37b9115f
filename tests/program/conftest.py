"""Import path of the hostile files and models that the fuzz target, a script of its own, shares."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
