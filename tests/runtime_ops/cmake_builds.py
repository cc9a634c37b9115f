"""CMake builds of ``runtime_ops``, shared by processes and later runs: unchanged sources are not compiled again."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime_ops"
_INSTALLED = ROOT / "build" / "editable"  # of `make install`
_FOLDER = ROOT / "build" / "runtime_ops"  # `make clean` removes it
# The libraries as users get them, and the tests.
AS_INSTALLED = ("-DEDGE_EMBED_TESTS=ON", "-DEDGE_EMBED_TRAINING=ON")


class CmakeBuilds:
    """A folder of ``build`` for each requested set of options.

    Args:
        cmake: path of the program.
    """

    def __init__(self, cmake: str) -> None:
        self._cmake = cmake
        ninja = shutil.which("ninja")
        self._generator = ["-G", "Ninja"] if ninja else []
        self._done: dict[tuple[Sequence[str], ...], Path] = {}

    def build(self, *options: str, targets: Sequence[str] = ("all",)) -> Path:
        """Return the folder with the targets up to date; without targets it is only configured."""
        if (options, targets) not in self._done:
            words = "\0".join((str(SOURCES), *self._generator, *options))  # the place too: a checkout may be copied
            folder = _FOLDER / hashlib.sha256(words.encode()).hexdigest()[:16]
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.with_suffix(".lock")):
                if self._generator and not folder.exists():
                    _start_with_installed(folder)
                self._run("-S", SOURCES, "-B", folder, *self._generator, *options)
                if targets:
                    self._run("--build", folder, "--parallel", str(os.cpu_count()), "--target", *targets)
            self._done[options, targets] = folder
        return self._done[options, targets]

    def _run(self, *arguments: str | Path) -> None:
        done = subprocess.run([self._cmake, *arguments], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    import fcntl  # absent on Windows, where nothing is built

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_with_installed(folder: Path) -> None:
    """Copy objects of the installed libraries with ninja's log, which detects another command or source."""
    logs = [_INSTALLED / name for name in (".ninja_log", ".ninja_deps")]
    if not all(log.exists() for log in logs):
        return
    folder.mkdir()
    for log in logs:
        shutil.copy2(log, folder)
    for objects in (_INSTALLED / "CMakeFiles").glob("edge_embed_*.dir"):
        shutil.copytree(objects, folder / "CMakeFiles" / objects.name)
