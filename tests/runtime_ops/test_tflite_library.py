"""The delegate as a file: its size, its dependencies, and the operator library of its own version that it calls."""

import ctypes
import shutil
import subprocess
import sys

import pytest

import edge_embed
from edge_embed.methods import Parts, most_library_bytes
from edge_embed.runtime.library import get_delegate_path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an ELF library is read")


def test_libraries_for_apps_stay_below_bounds():
    assert get_delegate_path().stat().st_size <= 32_000
    assert edge_embed.get_library_path().stat().st_size <= most_library_bytes([*Parts("kernels"), "entmax"])


def test_delegate_needs_only_libc_and_operator_library():
    readelf = shutil.which("readelf")
    assert readelf is not None, "readelf comes with every compiler (binutils)"
    dynamic = subprocess.run([readelf, "-dW", get_delegate_path()], text=True, capture_output=True, check=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
    assert needed == {"libedge_embed_ops.so", "libc.so.6"}
    assert "[$ORIGIN]" in dynamic


REFUSAL = """
import ctypes, sys
report = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda text: print(text.decode()))
create = ctypes.CDLL(sys.argv[1]).tflite_plugin_create_delegate
create.restype = ctypes.c_void_p
print(create(None, None, ctypes.c_size_t(0), report))
"""


def test_operator_library_of_another_version_is_refused(tmp_path):
    """Libraries may be copied into an app one by one, and structs differ between versions."""
    delegate = shutil.copy(get_delegate_path(), tmp_path)
    library = bytearray(edge_embed.get_library_path().read_bytes())
    words = b"edge-embed version "
    assert library.count(words + edge_embed.__version__.encode() + b"\0") == 1
    at = library.index(words) + len(words)
    library[at : at + 1] = b"9"
    (tmp_path / "libedge_embed_ops.so").write_bytes(library)
    done = subprocess.run([sys.executable, "-c", REFUSAL, delegate], text=True, capture_output=True, check=True)
    assert "got an operator library of another version, expected that of the delegate" in done.stdout
    assert done.stdout.splitlines()[-1] == "None"


def test_delegate_loads_from_any_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ctypes.CDLL(str(get_delegate_path())).tflite_plugin_destroy_delegate
