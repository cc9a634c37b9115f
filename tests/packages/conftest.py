"""Packages of platforms, made once in a session from builds in the cache of the user."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "runtime_ops"))

from edge_embed.packages.binaries import Binary, read_binaries
from edge_embed.packages.package import make_package
from edge_embed.packages.toolchain import zig_program
from edge_embed.report.results.packaged import PackageReport

TIME_LIMIT = 1800
_LOCKS = Path(__file__).parents[2] / "build" / "packages"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let other processes wait, which would compile the same."""
    import fcntl  # absent on Windows

    _LOCKS.mkdir(parents=True, exist_ok=True)
    with (_LOCKS / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Package:
    folder: Path
    report: PackageReport

    def binary(self, name: str) -> Binary:
        (binary,) = read_binaries(self.folder / name)
        return binary

    def proof(self, name: str) -> tuple[str, str | None]:
        (file,) = (file for file in self.report.files if file.path == name)
        return file.proof, file.evidence


@pytest.fixture(scope="session")
def zig() -> str:
    """Return the path of the program."""
    program = zig_program()
    if program is None:
        pytest.skip("zig is missing: pip install 'edge-embed[package]'")
    return str(program)


@pytest.fixture(scope="session")
def packaged(zig: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Package]:
    """Return a function that makes the package of a platform."""
    made: dict[str, Package] = {}

    def package(name: str) -> Package:
        if name not in made:
            folder = tmp_path_factory.mktemp("packages") / name
            with alone(name):
                report = make_package(name, folder, force=False, time_limit=TIME_LIMIT, progress=lambda *_: None)
            made[name] = Package(folder, report)
        return made[name]

    return package
