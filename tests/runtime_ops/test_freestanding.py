"""The library builds without libc and libstdc++, and that build works in ONNX Runtime and ctypes."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cmake_builds import AS_INSTALLED
from ort_nodes import assert_close, open_session, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an ELF library is built and read")


@pytest.fixture(scope="module")
def library(cmake_build):
    """Return the library that the C++ tests build too, so that it is compiled once.

    A test below shows that the option builds the same library.
    """
    folder = cmake_build(*AS_INSTALLED, targets=("edge_embed_ops_freestanding",))
    return folder / "tests" / "libedge_embed_ops_freestanding.so"


def rules_of(folder, target, place):
    """Return ninja's commands for the library of a target, without folders and the target's name."""
    ninja = shutil.which("ninja")
    if ninja is None:
        pytest.skip("ninja is missing, whose commands are compared")
    library = f"{place}lib{target}.so"
    done = subprocess.run([ninja, "-C", folder, "-t", "commands", library], text=True, capture_output=True, check=True)
    lines = done.stdout.replace(str(folder), "").replace(f"{place}CMakeFiles/{target}.dir/__/", "OBJECTS/")
    lines = lines.replace(f"CMakeFiles/{target}.dir/", "OBJECTS/").replace(target, "TARGET").replace(place, "")
    return sorted(line for line in lines.splitlines() if "OBJECTS" in line)


def test_freestanding_option_compiles_and_links_as_tests_do(cmake_build):
    alone = cmake_build("-DEDGE_EMBED_FREESTANDING=ON", "-DEDGE_EMBED_TESTS=OFF", targets=())
    tested = cmake_build(*AS_INSTALLED, targets=())
    commands = rules_of(alone, "edge_embed_ops", "")
    assert sum("-ffreestanding" in command for command in commands) > 10
    assert any("-nostdlib" in command for command in commands)
    assert commands == rules_of(tested, "edge_embed_ops_freestanding", "tests/")


@pytest.mark.slow
def test_freestanding_library_needs_no_symbol(library):
    readelf = shutil.which("readelf")
    assert readelf is not None, "readelf comes with every compiler (binutils)"
    dynamic = subprocess.run([readelf, "-dW", library], text=True, capture_output=True, check=True).stdout
    symbols = subprocess.run([readelf, "-sW", library], text=True, capture_output=True, check=True).stdout
    undefined = [line for line in symbols.splitlines() if " UND " in line and line.split()[-1] != "UND"]
    assert "Dynamic section" in dynamic
    assert "RegisterEdgeEmbedOps" in symbols
    assert "NEEDED" not in dynamic
    assert undefined == []


@pytest.mark.slow
def test_freestanding_library_runs_in_onnx_runtime(library, make_any):
    table = make_any(padding_idx=0)
    session = open_session(table.model(), threads=2, library=library)
    ids = np.arange(50).repeat(100).reshape(100, 50)
    assert_close(run(session, ids), np.float32, table.rows64[ids], table.magnitudes[ids])
    with pytest.raises(Exception, match=r"got id -1 at position 0 .*expected 0 <= id < 50"):
        run(session, np.array([[-1]]))


@pytest.mark.slow
def test_freestanding_float16_needs_no_support_library(library, make_any):
    table = make_any(dtype=np.float16)
    hidden = np.random.default_rng(3).standard_normal((4, table.dim)).astype(np.float16)
    logits = run(open_session(table.logits_model(np.float16), library=library), hidden)
    exact = hidden.astype(np.float64) @ table.rows64.T
    assert_close(logits, np.float16, exact, np.abs(hidden.astype(np.float64)) @ table.magnitudes.T)


@pytest.mark.slow
def test_freestanding_c_functions_return_results(library):
    functions = ctypes.CDLL(str(library))
    functions.ee_version.restype = functions.ee_status_message.restype = ctypes.c_char_p
    assert functions.ee_version().count(b".") >= 2
    assert b"negative" in functions.ee_status_message(10)
