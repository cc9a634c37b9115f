"""Runs commands and programs in forks of a process that has imported their packages and has exported a model once.

These steps take most of the time of a command on a small model. `Warm` starts the process. A script named `edge-embed`
in its folder replaces the installed one, and runs the command with the same streams, folder and environment.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

_IMPORTED = (
    "matplotlib.pyplot onnx onnxruntime onnxscript rich.progress scipy.stats torch.distributed "
    "edge_embed.gate.check edge_embed.validation.validate"
).split()


class Warm(AbstractContextManager["Warm"]):
    """The process that the processes of commands and programs are forked from.

    Attributes:
        scripts: folder of the script `edge-embed`, for the first place in PATH.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")  # its name is short enough for a socket
        self.scripts = Path(self._folder.name)
        self._address = self.scripts / "socket"
        script = self.scripts / "edge-embed"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SI "{__file__}" "{self._address}" command "$@"\n')
        script.chmod(0o755)
        self._server = subprocess.Popen([sys.executable, "-P", __file__, self._address], stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()

    def program(self, code: str) -> list[str]:
        """Return a command with the effect of `python -c`."""
        return [sys.executable, "-SI", __file__, str(self._address), "program", code]


def _ask(address: str, *job: str) -> int:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"!"], [0, 1, 2])
        server.sendall(json.dumps({"job": job, "folder": os.getcwd(), "environment": dict(os.environ)}).encode())
        server.shutdown(socket.SHUT_WR)
        return int(server.makefile().read())


def _fork_for_each(listening: socket.socket) -> list[str]:
    """Return the job in each forked process, with the streams, folder and environment of the process that asks."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the forks that wait for their own child
    while True:
        asking, _ = listening.accept()
        with asking:
            _, streams, *_ = socket.recv_fds(asking, 1, 3)
            if os.fork():
                for stream in streams:
                    os.close(stream)
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked = json.loads(asking.makefile().read())
            if child := os.fork():
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                asking.sendall(str(code if code >= 0 else 128 - code).encode())
                os._exit(0)
        listening.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        job: list[str] = asked["job"]
        return job


def _import_all() -> None:
    from importlib import import_module

    for name in _IMPORTED:
        import_module(name)
    import torch

    import edge_embed

    with tempfile.TemporaryDirectory() as folder:
        layer = edge_embed.DPQEmbedding(20, 4, num_codes=4, num_groups=2)
        edge_embed.export(layer, "onnx", Path(folder) / "m.onnx", torch.tensor([[1]]), open=False)


def _run(kind: str, *arguments: str) -> None:
    if kind == "program":
        sys.argv = ["-c"]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[0], "<string>", "exec"), vars(main))
    else:
        from edge_embed.cli import console

        console.can_supervise = lambda: False  # else it would start another process, which imports all again
        sys.argv = ["edge-embed", *arguments]
        console.run_command()


def _exit_code_of(job: list[str]) -> int:
    """Run a job, and return the exit code that a process of its own would have."""
    try:
        _run(*job)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(_ask(*sys.argv[1:]))
    _import_all()
    with socket.socket(socket.AF_UNIX) as _listening:
        _listening.bind(sys.argv[1])
        _listening.listen()
        print("ready", flush=True)
        _job = _fork_for_each(_listening)
    _code = _exit_code_of(_job)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_code)  # a normal exit would wait for threads that only the first process has
