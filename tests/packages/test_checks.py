"""Inspection of built libraries: a library that meets all requirements, and one fault of each kind."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edge_embed.errors import EdgeEmbedError
from edge_embed.packages import checks
from edge_embed.packages.binaries import Binary, read_binaries
from edge_embed.packages.platforms import PLATFORMS
from edge_embed.runtime.library import get_delegate_path, get_library_path
from edge_embed.targets.build import source_folder

NAMES = frozenset({"RegisterCustomOps", "RegisterEdgeEmbedOps"})
ELF = Binary("ELF", "arm64", NAMES, frozenset({"getenv"}), ("libc.so.6",), "2.17", alignment=16384)
BARE = replace(ELF, imports=frozenset(), needed=(), minimum="")
MACHO = Binary("Mach-O", "arm64", NAMES, frozenset(), (), "11.0", "MACOS", is_signed=True)


@pytest.mark.parametrize("kept", ["ELF.parse", "ELF.parse(path)"])
def test_process_that_keeps_objects_of_lief_ends_silently(kept):
    code = f"""
import ctypes, sys
from edge_embed.packages.binaries import lief
path = sys.argv[1]
kept = lief.{kept}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
"""
    command = [sys.executable, "-c", code, get_library_path()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.fixture
def check(monkeypatch):
    """Return a function that inspects a made-up library."""
    monkeypatch.setattr(checks, "exported_names", lambda include, part: NAMES)

    def inspect(binary, platform, name="libedge_embed_ops.so"):
        monkeypatch.setattr(checks, "read_binaries", lambda path: [binary])
        builds = PLATFORMS[platform].builds[:1]
        return checks.check_library(Path(name), PLATFORMS[platform], builds, Path("include"))

    return inspect


def test_sound_library_returns_its_facts(check):
    facts = check(ELF, "linux-arm64")
    assert facts == "ELF arm64, glibc 2.17 or newer, needs libc.so.6, pages of 16384 bytes"
    assert check(BARE, "android") == "ELF arm64, pages of 16384 bytes"
    assert check(MACHO, "macos") == "Mach-O arm64, system 11.0 or newer, signed by the linker"


@pytest.mark.parametrize(
    ("binary", "platform", "fault"),
    [
        (replace(ELF, processor="x86-64"), "linux-arm64", r"got code for \['x86-64'\], expected \['arm64'\]"),
        (replace(ELF, exports=NAMES - {"RegisterCustomOps"}), "linux-arm64", "does not export RegisterCustomOps"),
        (replace(ELF, exports=NAMES | {"main"}), "linux-arm64", "exports main beside its functions"),
        (replace(ELF, minimum="2.36"), "linux-arm64", "needs version 2.36 of the system, expected 2.28 or older"),
        (replace(ELF, alignment=4096), "linux-arm64", "got segments aligned to 4096 bytes, expected 16384"),
        (replace(ELF, needed=("libstdc++.so.6",)), "linux-arm64", r"needs libstdc\+\+"),
        (ELF, "android", "needs libc.so.6, getenv, expected nothing"),
        (ELF, "macos", "got ELF, expected Mach-O"),
        (replace(MACHO, is_signed=False), "macos", "has no signature"),
        (replace(MACHO, system="IOS"), "macos", "is for IOS, expected MACOS"),
        (replace(MACHO, minimum="13.0"), "macos", "needs version 13.0 of the system, expected 11.0"),
    ],
)
def test_fault_of_library_is_named(check, binary, platform, fault):
    with pytest.raises(EdgeEmbedError, match=f"libedge_embed_ops.so: .*{fault}"):
        check(binary, platform)


def test_headers_declare_what_installed_libraries_export(tmp_path):
    include, sources = tmp_path / "edge_embed", source_folder()
    (include / "c_api").mkdir(parents=True)
    for source, place in (
        ("c_api/edge_embed.h", "c_api/edge_embed.h"),
        ("package/include/edge_embed/ops.h", "ops.h"),
        ("package/include/edge_embed/tflite.h", "tflite.h"),
    ):
        (include / place).write_bytes((sources / source).read_bytes())
    for path, part in ((get_library_path(), "ops"), (get_delegate_path(), "tflite")):
        (library,) = read_binaries(path)
        assert library.exports == checks.exported_names(tmp_path, part)


def test_library_check_of_other_file_is_refused(tmp_path):
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(EdgeEmbedError, match=r"text.so: got no ELF, Mach-O or PE file"):
        read_binaries(tmp_path / "text.so")
