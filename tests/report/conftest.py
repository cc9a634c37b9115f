"""Import path of ``made_by_hand``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
