"""Packages that targets download with pip: one version each, and the hashes that its files may have."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PIP = (sys.executable, "-m", "pip")
# What this environment is pinned to does not hold for what runs beside it.
UNBOUND = {name: os.devnull for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT") if name in os.environ}


@dataclass(frozen=True)
class Pinned:
    """A release on PyPI.

    Attributes:
        name: of the package.
        version: of the release.
        sha256: of its files for each platform that it is wanted for.
    """

    name: str
    version: str
    sha256: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """``name==version``."""
        return f"{self.name}=={self.version}"


@contextmanager
def pip_options(packages: Sequence[Pinned]) -> Iterator[list[str | Path]]:
    """Yield options of pip by which it takes these packages alone, and no file with another hash."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        lines = (" ".join([one.requirement, *(f"--hash=sha256:{digest}" for digest in one.sha256)]) for one in packages)
        requirements.write_text("\n".join(lines), encoding="utf-8")
        yield ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", requirements]
