"""Packages that targets download with pip: one version each, and the allowed hashes of its files."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PIP = (sys.executable, "-m", "pip")
# The pins of this environment do not apply to packages that run outside it.
UNBOUND = {name: os.devnull for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT") if name in os.environ}


@dataclass(frozen=True)
class Pinned:
    """Release on PyPI.

    Attributes:
        name: name of the package.
        version: version of the release.
        sha256: SHA-256 of its file for each supported platform.
    """

    name: str
    version: str
    sha256: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """Return ``name==version``."""
        return f"{self.name}=={self.version}"


@contextmanager
def pip_options(packages: Sequence[Pinned]) -> Iterator[list[str | Path]]:
    """Yield options of pip that allow only these packages, and only files with these hashes."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        lines = (" ".join([one.requirement, *(f"--hash=sha256:{digest}" for digest in one.sha256)]) for one in packages)
        requirements.write_text("\n".join(lines), encoding="utf-8")
        yield ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", requirements]
