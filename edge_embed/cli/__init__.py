"""The command line: arguments, progress on stderr, results on stdout, and exit codes. It holds no other logic.

Exit codes: 0 passed, 2 usage or bad input, 3 parity, 4 size, 5 latency, 130 interrupted, 1 any other error.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_embed.cli.console import main as main

__all__ = ["main", "run"]

_INTERRUPTED = 130


def run() -> None:
    """Run the console script; it imports its modules here, so that an interrupt meanwhile prints no traceback."""
    try:
        from edge_embed.cli.console import run_command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run_command()


def __getattr__(name: str) -> Any:
    if name == "main":
        return import_module("edge_embed.cli.console").main
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
