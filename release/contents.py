"""Requirements of a wheel: its tag, the list of its files, and the libraries of its platform."""

import base64
import csv
import hashlib
import io
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path, PurePosixPath

from edge_embed.errors import EdgeEmbedError
from edge_embed.packages.binaries import Binary, as_numbers, read_binaries
from release.tags import Target

_FOLDER = PurePosixPath("edge_embed", "runtime")
_SUFFIXES = (".so", ".dylib", ".dll", "")  # programs have none
_ENTRY = {"ops": "RegisterCustomOps", "tflite": "tflite_plugin_create_delegate", "training": "ee_training_nearest"}
# Libraries that every system has; for Linux, those of PEP 600 that belong to glibc.
_SYSTEM = re.compile(
    r"lib(c|m|dl|pthread)\.so\.\d|ld-linux-[\w-]+\.so\.\d|/usr/lib/libSystem\.B\.dylib"
    r"|KERNEL32\.dll|ntdll\.dll|api-ms-win-crt-\w+-l1-1-0\.dll"
)


def check_wheel(path: Path, target: Target, forbidden: Iterable[Path]) -> list[str]:
    """Return a line about each library of a wheel that meets all requirements.

    Args:
        path: the wheel.
        target: its platform.
        forbidden: folders of this machine, which no file may name.

    Raises:
        EdgeEmbedError: if it does not meet one.
    """
    with zipfile.ZipFile(path) as archive:
        faults = [*_metadata_faults(path, archive, target), *_record_faults(archive)]
        found = {PurePosixPath(name).name: archive.getinfo(name) for name in archive.namelist() if _is_native(name)}
        if found.keys() != target.files:
            faults.append(f"got the libraries {', '.join(sorted(found))}, expected {', '.join(sorted(target.files))}")
        facts = []
        for name, entry in sorted(found.items()):
            data = archive.read(entry)
            binary = _read(name, data)
            faults += [f"{name}: {fault}" for fault in _library_faults(name, binary, target)]
            faults += [f"{name}: names {folder}" for folder in forbidden if str(folder).encode() in data]
            if not PurePosixPath(name).suffix and not (entry.external_attr >> 16) & stat.S_IXUSR:
                faults.append(f"{name}: is not executable")
            oldest = f", oldest system {binary.minimum}" if binary.minimum else ""
            facts.append(f"{name}: {len(data)} bytes, {binary.binary_format} {binary.processor}{oldest}")
    if faults:
        raise EdgeEmbedError(f"{path.name}: {'; '.join(faults)}: report this as a bug, with the name of the compiler")
    return facts


def _is_native(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parent == _FOLDER and path.suffix in _SUFFIXES


def _read(name: str, data: bytes) -> Binary:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        (binary,) = read_binaries(Path(folder) / name)
    return binary


def _metadata_faults(path: Path, archive: zipfile.ZipFile, target: Target) -> Iterator[str]:
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
    fields = Parser().parsestr(archive.read(name).decode())
    tags = fields.get_all("Tag") or []
    if tags != [target.tag] or not path.name.endswith(f"-{target.tag}.whl"):
        yield f"got the tags {', '.join(tags)}, expected {target.tag}"
    if fields["Root-Is-Purelib"] != "false":
        yield "is marked as pure Python"


def _record_faults(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield files that differ from the list that installers check."""
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    listed = {row[0]: row[1] for row in csv.reader(io.StringIO(archive.read(name).decode()))}
    if differing := listed.keys() ^ set(archive.namelist()):
        yield f"RECORD and the archive differ in {', '.join(sorted(differing)[:5])}"
    for file, digest in listed.items():
        if file != name and file not in differing and digest != _digest(archive.read(file)):
            yield f"RECORD has another hash of {file}"


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _library_faults(name: str, binary: Binary, target: Target) -> Iterator[str]:
    build = target.build
    got, expected = (binary.binary_format, binary.processor), (target.platform.binary_format, build.processor)
    if got != expected:
        yield f"is {' '.join(got)}, expected {' '.join(expected)}"
    if build.minimum and as_numbers(binary.minimum) > as_numbers(build.minimum):
        yield f"needs version {binary.minimum} of the system, but the tag promises {build.minimum}"
    if others := [lib for lib in binary.needed if not _SYSTEM.fullmatch(lib) and "edge_embed_ops" not in lib]:
        yield f"needs {', '.join(others)}"
    part = re.sub(r"(lib)?edge_embed_|\..*", "", name)
    if part in _ENTRY and _ENTRY[part] not in binary.exports:
        yield f"does not export {_ENTRY[part]}"
    if binary.binary_format == "Mach-O" and build.processor == "arm64" and not binary.is_signed:
        yield "has no signature, which macOS requires on arm64"
