"""Python of Debian for 64-bit ARM under QEMU, with the packages that an installed wheel needs, downloaded once."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from edge_embed.targets.arm64 import CPUS
from edge_embed.targets.arm64_files import C_LIBRARY
from edge_embed.targets.cache import fetch_once
from edge_embed.targets.pinned import PIP

TOOLS = {
    "qemu-aarch64": "apt-get install qemu-user libc6-arm64-cross",
    "apt-get": "this test is for Debian",
    "dpkg": "this test is for Debian",
}
_PYTHON = "python3.11"  # of Debian 12; its parts, and what it loads
_DEBIAN = (f"{_PYTHON}-minimal", f"lib{_PYTHON}-minimal", f"lib{_PYTHON}-stdlib", "zlib1g", "libexpat1", "libffi8")
_PACKAGES = "numpy onnxruntime safetensors click rich markdown-it-py mdurl pygments".split()
_PLATFORMS = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 27, 17)]


@contextmanager
def arm64_python() -> Iterator[tuple[list[str | Path], Path]]:
    """Yield the command that starts Python, and the folder of its packages."""
    system = fetch_once(f"debian-{_PYTHON}-arm64", _fetch_python)
    versions = [f"{name}=={metadata.version(name)}" for name in _PACKAGES]
    packages = fetch_once(f"packages-{_PYTHON}-arm64-{'-'.join(versions[:2])}", lambda folder: _fetch(folder, versions))
    libraries = [system / "lib/aarch64-linux-gnu", system / "usr/lib/aarch64-linux-gnu"]
    with tempfile.TemporaryDirectory() as root:  # ONNX Runtime reads the processor there
        Path(root, "proc").mkdir()
        Path(root, "proc/cpuinfo").write_text(CPUS["max"].description())
        Path(root, "lib").symlink_to(C_LIBRARY)
        search = f"LD_LIBRARY_PATH={':'.join(map(str, libraries))}"
        emulator = ["qemu-aarch64", "-cpu", "max", "-U", "LD_PRELOAD", "-L", root, "-E", search]
        yield [*emulator, system / "usr/bin" / _PYTHON], packages


def _fetch_python(folder: Path) -> None:
    """Unpack packages of Debian, with lists of their own: those of this machine stay as they are."""
    with tempfile.TemporaryDirectory() as temporary:
        for part in ("lists/partial", "cache/archives/partial"):
            Path(temporary, part).mkdir(parents=True)
        places = [f"Dir::State::lists={temporary}/lists", f"Dir::Cache={temporary}/cache", "APT::Sandbox::User=root"]
        settings = ["APT::Architecture=arm64", "APT::Architectures::=arm64", *places]
        apt = ["apt-get", "-qq", *(word for setting in settings for word in ("-o", setting))]
        subprocess.run([*apt, "update"], check=True)
        subprocess.run([*apt, "download", *_DEBIAN], cwd=temporary, check=True)
        for package in Path(temporary).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
    shutil.rmtree(folder / "usr" / "share")


def _fetch(folder: Path, versions: list[str]) -> None:
    options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--python-version=3.11", *_PLATFORMS]
    subprocess.run([*PIP, "install", *options, f"--target={folder}", *versions], check=True)
