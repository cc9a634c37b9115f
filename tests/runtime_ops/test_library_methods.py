"""An operator library with fewer methods is smaller and names the missing ones."""

import ctypes
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cmake_builds import AS_INSTALLED, SOURCES
from ort_nodes import TABLES, open_session, run

from edge_embed.bench.c_table import KERNELS, table_of
from edge_embed.inspection.doctor import diagnose
from edge_embed.methods import Parts, most_library_bytes
from edge_embed.methods.registry import CORE_BYTES
from edge_embed.packed.tiered import PackedTiered
from edge_embed.runtime.library import ENVIRONMENT_NAME, get_library_path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sizes of ELF files")


@pytest.mark.slow
def test_library_without_libc_is_within_bound(cmake_build):
    folder = cmake_build(*AS_INSTALLED, targets=("edge_embed_ops_freestanding",))
    library = folder / "tests" / "libedge_embed_ops_freestanding.so"
    assert library.stat().st_size <= most_library_bytes([*Parts("kernels"), "entmax"])


@pytest.mark.slow
def test_library_of_core_methods_is_within_its_bound(cmake_build):
    folder = cmake_build("-DEDGE_EMBED_METHODS=dpq;ant;tt", targets=("edge_embed_ops",))
    library = folder / "libedge_embed_ops.so"
    assert library.stat().st_size <= most_library_bytes(["dpq", "ant", "tt"]) == CORE_BYTES
    for operator in (b"Sparsemax", b"Entmax15", b"DPQScaledTopK", b"TieredTopK"):
        assert operator not in library.read_bytes()
        assert operator in get_library_path().read_bytes()


@pytest.fixture(scope="module")
def with_dpq(cmake_build) -> Path:
    folder = cmake_build("-DEDGE_EMBED_METHODS=dpq", targets=("edge_embed_ops",))
    return folder / "libedge_embed_ops.so"


@pytest.mark.slow
def test_library_with_one_method_is_half_as_large(with_dpq):
    assert with_dpq.stat().st_size < get_library_path().stat().st_size / 1.8


@pytest.mark.slow
def test_onnx_runtime_names_operator_left_out(with_dpq):
    table = TABLES["dpq"]()
    ids = np.arange(12).reshape(3, 4)
    assert (
        run(open_session(table.model(), library=with_dpq), ids).tobytes()
        == run(open_session(table.model()), ids).tobytes()
    )
    for name in ("ant", "tt"):
        with pytest.raises(Exception, match=f"{name.upper()}Embedding.* is not a registered function/op"):
            open_session(TABLES[name]().model(), library=with_dpq)


@pytest.mark.slow
@pytest.mark.parametrize("method", Parts("kernels"))
def test_c_interface_lists_methods_left_out(with_dpq, method):
    functions = ctypes.CDLL(str(with_dpq))
    functions.ee_status_message.restype = functions.ee_method_name.restype = ctypes.c_char_p
    assert [functions.ee_method_name(index) for index in range(3)] == [b"dpq", None, None]
    name = {"dpq_scaled": "dpq", "tiered": "dpq"}.get(method, method)
    sizes = {"dpq": (5, 4), "ant": (30, 4), "tt": (3,)}[name]
    packed = Parts("bench")[name].random_table(np.random.default_rng(0), 50, 12, *sizes)
    other = {
        "dpq_scaled": lambda: replace(packed, unused_columns=1),
        "tiered": lambda: PackedTiered((packed, packed, packed)),
    }
    table = table_of(other.get(method, lambda: packed)())
    assert table.method == KERNELS[method].number
    status = functions.ee_check(ctypes.byref(table))
    message = functions.ee_status_message(status).decode()
    assert message == "no error" if method == "dpq" else message.startswith("this library does not contain the method")


@pytest.mark.slow
def test_doctor_names_methods_left_out(with_dpq, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT_NAME, str(with_dpq))
    report = diagnose()
    assert (report.exit_code, report.library.methods, report.library.runs) == (1, ["dpq"], True)
    (problem,) = report.problems
    assert problem.what.endswith("was built without ant, tt, dpq_scaled, tiered")
    assert "EDGE_EMBED_METHODS=all" in problem.remedy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("-DEDGE_EMBED_METHODS=dpq;rq",),
            'got "dpq;rq", expected all, or some of "dpq;ant;tt;dpq_scaled;tiered;entmax"',
        ),
        (("-DEDGE_EMBED_METHODS=entmax",), 'got "entmax", expected at least one of "dpq;ant;tt;dpq_scaled;tiered"'),
        (("-DEDGE_EMBED_METHODS=dpq_scaled",), 'got "dpq_scaled", expected dpq too'),
        (("-DEDGE_EMBED_METHODS=dpq;tiered",), 'got "dpq;tiered", expected dpq and dpq_scaled too'),
        (("-DEDGE_EMBED_METHODS=tt", "-DEDGE_EMBED_TESTS=ON"), "Set EDGE_EMBED_METHODS to all"),
    ],
)
def test_invalid_choice_of_methods_is_refused(cmake, tmp_path, options, message):
    done = subprocess.run(
        [cmake, "-S", SOURCES, "-B", tmp_path / "build", *options], text=True, capture_output=True, check=False
    )
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())
