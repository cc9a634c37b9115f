"""Samples are scripts beside one another: what they import lies in their folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "samples"))
