"""Prints what breaks the rules: ``python -m tests.english [PATH...]``, of files and folders, or of everything."""

import sys
from pathlib import Path

from .lint import findings

for finding in findings([Path(name).resolve() for name in sys.argv[1:]]):
    print(finding)
