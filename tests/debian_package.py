"""Packages of Debian for tests, unpacked without root into the cache of the user."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_embed.targets.cache import fetch_once


def debian_package(name: str, file: str, *required: str) -> Path:
    """Return the folder ``usr`` of a package: that of the machine if it has ``file``, else a downloaded one.

    Packages that it requires are unpacked into the same folder. The test is skipped where the package is neither
    installed nor can be downloaded.
    """
    if Path("/usr", file).exists():
        return Path("/usr")
    try:
        return fetch_once(f"debian-{name}", lambda folder: _unpack((name, *required), folder)) / "usr"
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"{name} is missing: apt-get install {name} ({error})")


def _unpack(names: Sequence[str], folder: Path) -> None:
    """Download packages by lists of their own, so that nothing of the system is read or written but its sources."""
    state = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    options = ["-q", "-o", f"Dir::State::lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]
    options += ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=2"]
    for words in (["update"], ["download", *names]):
        subprocess.run(["apt-get", *options, *words], cwd=folder, check=True, capture_output=True)
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True, capture_output=True)
        archive.unlink()
    shutil.rmtree(state)
