"""The hostile files and the models are shared with the fuzz target, which is a script of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
