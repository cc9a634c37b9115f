"""The package for Windows: DLLs with import libraries, executed under Wine, alone and in ONNX Runtime."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from ort_nodes import TABLES, Table, open_session, run_all
from sparse_activations import export_activations
from windows_runs import Job, run_jobs

pytestmark = [pytest.mark.slow, pytest.mark.long]  # zig's C library of MinGW takes minutes without a cache
HOSTILE = (-1, 50, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
HEADER = "onnxruntime_c_api.h"


def needs_wine() -> None:
    if shutil.which("wine") is None:
        pytest.skip("wine is missing: apt-get install wine")


def instruction_sets(package) -> list[str]:
    (library,) = (file for file in package.report.files if file.path == "bin/edge_embed_ops.dll")
    return library.detail.partition("; ran ")[2].split(", ")


def jobs_of(method: str, table: Table) -> list[Job]:
    random = np.random.default_rng(5)
    ids = random.integers(0, 50, (3, 7))
    hidden = random.standard_normal((2, table.dim)).astype(np.float32)
    bags = {"ids": ids[0], "offsets": np.array([0, 2, 7]), "sample_weights": np.ones(7, np.float32)}
    best = {"hidden": hidden, "bias": np.zeros(50, np.float32)}
    jobs = [
        Job(f"{method}_rows", table.model(), {"ids": ids}),
        Job(f"{method}_bag", table.bag_model(), bags),
        Job(f"{method}_logits", table.logits_model(), {"hidden": hidden}),
        Job(f"{method}_topk", table.topk_model(3), best, (np.float32, np.int64)),
    ]
    hostile = [np.array([[4, number]]) for number in HOSTILE]
    return jobs + [Job(f"{method}_hostile{i}", table.model(), {"ids": ids}) for i, ids in enumerate(hostile)]


def test_windows_dlls_need_system_libraries_only(packaged):
    package = packaged("windows")
    ops, delegate = (package.binary(f"bin/edge_embed_{name}.dll") for name in ("ops", "tflite"))
    assert {"RegisterCustomOps", "RegisterEdgeEmbedOps", "ee_gather"} <= ops.exports
    assert delegate.exports == {"tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"}
    for library in (ops, delegate):
        others = {name for name in library.needed if not name.startswith("api-ms-win-crt-")} - {"KERNEL32.dll"}
        assert others == ({"edge_embed_ops.dll"} if library is delegate else set())
    for name in ("ops", "tflite"):
        assert f"edge_embed_{name}.dll".encode() in (package.folder / "lib" / f"edge_embed_{name}.lib").read_bytes()


def test_windows_library_ran_under_wine_with_each_instruction_set(packaged):
    needs_wine()
    package = packaged("windows")
    assert package.proof("bin/edge_embed_ops.dll") == ("executed", "executed-emulated")
    print("instruction sets under Wine:", *instruction_sets(package))
    assert instruction_sets(package)[-2:] == ["portable", "reference"]


def test_windows_library_runs_in_onnx_runtime_with_each_instruction_set(packaged, zig, tmp_path):
    """All operators equal the native ones within rounding; hostile ids are errors that name them."""
    needs_wine()
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is missing, which downloads ONNX Runtime for Windows: python -m ensurepip")
    headers = sorted(Path("~/.cache/edge-embed").expanduser().glob(f"onnxruntime-headers-*/{HEADER}"))
    if not headers:
        pytest.skip("no header of ONNX Runtime in the cache: the build of the package takes another")
    source = Path(__file__).parent / "run_onnx.c"
    program = tmp_path / "run_onnx.exe"
    options = ["-D_Return_type_success_(x)=", "-isystem", headers[-1].parent]
    subprocess.run([zig, "cc", "-target", "x86_64-windows-gnu", "-O1", *options, source, "-o", program], check=True)
    tables = {method: TABLES[method]() for method in TABLES}
    jobs = [job for method, table in tables.items() for job in jobs_of(method, table)]
    scores, probabilities = export_activations(tmp_path / "activations.onnx")
    jobs.append(Job("activations", onnx.load(tmp_path / "activations.onnx"), scores))
    library = packaged("windows").folder / "bin" / "edge_embed_ops.dll"
    found = instruction_sets(packaged("windows"))
    assert found
    for isa in found:
        results = run_jobs(program, library, jobs, tmp_path / isa, isa)
        for job in jobs:
            got = results[job.name]
            if "hostile" in job.name:
                number = job.inputs["ids"][0, 1]
                assert f"got id {number} at position 1" in got, (isa, job.name, got)
                continue
            assert not isinstance(got, str), (isa, job.name, got)
            expected = run_all(open_session(job.model), *job.inputs.values())
            for mine, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(mine, other.ravel(), rtol=1e-5, atol=1e-5, err_msg=f"{isa} {job.name}")
            if job.name == "activations":
                np.testing.assert_allclose(got[0], probabilities.ravel(), rtol=0, atol=1e-6, err_msg=isa)
            if job.name == "dpq_rows":
                assert got[0].tobytes() == expected[0].tobytes()
