"""Workers of TFLite models, forked from a process that has imported the runtime: the import takes most of the time.

As a program, ``forked_worker.py WORKER`` reads lines. Each is a JSON list of a folder and the arguments of a worker.
The program runs the worker in that folder, and prints its exit status.
"""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


class ForkedWorkers(AbstractContextManager["ForkedWorkers"]):
    """A process from which workers are forked.

    Args:
        python: the interpreter with its options.
        environment: variables for it.
        worker: path of the program.
    """

    def __init__(self, python: Sequence[str], environment: Mapping[str, str], worker: str) -> None:
        self._server = subprocess.Popen(
            [*python, __file__, worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def is_done(self, arguments: Sequence[str]) -> bool:
        """Run the worker in the current folder, and return whether it succeeded."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([str(Path.cwd()), *arguments]) + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline() == "0\n"


def _run(
    worker: Mapping[str, Any], current: str, model: str, folder: str, iterations: str, threads: str, *delegate: str
) -> None:
    os.dup2(2, 1)
    os.chdir(current)
    worker["main"](model, Path(folder), int(iterations), int(threads), *delegate)
    os._exit(0)


if __name__ == "__main__":
    _worker = runpy.run_path(sys.argv[1])
    _worker["find_runtime"]()
    for _line in sys.stdin:
        if not (_child := os.fork()):
            try:
                _run(_worker, *json.loads(_line))
            finally:
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(_child, 0)[1]), flush=True)
