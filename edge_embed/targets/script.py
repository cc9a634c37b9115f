"""Scripts of this package that run a model in a process of their own."""

import sys

# Its input ends with the parent process, even if the parent is killed while native code runs here.
_PROGRAM = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def script_command(script: str, *arguments: object) -> list[str]:
    """Return the command that runs a script with this Python; started as in process.py, it ends with this process."""
    return [sys.executable, "-P", "-c", _PROGRAM.strip(), script, *map(str, arguments)]
