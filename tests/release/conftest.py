"""The folder of the repository is searched for `release`, which no distribution has."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
