"""Doctor: report on a valid installation and on each kind of broken one."""

import json
import os
import shutil
import sys
from importlib import metadata

import numpy as np
import onnx
import onnxruntime
import pytest

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.inspection.doctor import diagnose
from edge_embed.inspection.probe import probe_model, probe_table
from edge_embed.methods import Parts, most_library_bytes
from edge_embed.runtime import library
from edge_embed.runtime.library import ENVIRONMENT_NAME, get_library_path, installed_path


def test_doctor_reports_valid_installation_without_problems():
    report = diagnose()
    assert report.problems == []
    assert (report.ok, report.exit_code) == (True, 0)
    for name in ("edge-embed", "torch", "numpy", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "safetensors"):
        assert report.versions[name] == metadata.version(name)
    library = get_library_path()
    assert (report.library.path, report.library.bytes) == (str(library), library.stat().st_size)
    assert report.library.version == metadata.version("edge-embed")
    assert report.library.kernels == ["ee_gather", "ee_bag", "ee_logits", "ee_topk"]
    assert report.library.methods == [*Parts("kernels"), "entmax"]
    assert report.library.bytes <= report.library.most_bytes == 500_000
    assert report.library.runs
    assert (report.opset, report.ir_version) == (OPSET, IR_VERSION)
    assert "CPUExecutionProvider" in report.providers
    content = json.loads(json.dumps(report.to_json()))
    assert (content["schema_version"], content["ok"]) == (1, True)


def test_library_with_further_methods_may_be_larger():
    core = ["dpq", "ant", "tt"]
    assert most_library_bytes([]) == most_library_bytes(core) == 300_000
    assert most_library_bytes(Parts("kernels")) == most_library_bytes([*core, "further"]) == 500_000


def test_probe_needs_operator_library():
    """A result of the probe therefore proves that the kernel ran."""
    table = probe_table()
    model = onnx.ModelProto.FromString(probe_model(table))
    onnx.checker.check_model(model)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", OPSET), (DOMAIN, DOMAIN_VERSION)]
    assert model.ir_version == IR_VERSION
    codes, values = (onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    assert (codes.tobytes(), values.tobytes()) == (table.codes.tobytes(), table.values.tobytes())
    assert (codes.shape, codes.dtype, values.shape) == (table.codes.shape, table.codes.dtype, table.values.shape)
    with pytest.raises(Exception, match="edge_embed"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def problems(report):
    assert (report.ok, report.exit_code) == (False, 1)
    return " | ".join(f"{problem.what} -> {problem.remedy}" for problem in report.problems)


def test_kernel_with_wrong_rows_is_problem(monkeypatch):
    wrong = probe_table()
    wrong.values[0, 0, 0] = np.nextafter(wrong.values[0, 0, 0], np.float32(9))
    model = probe_model(wrong)
    monkeypatch.setattr("edge_embed.inspection.probe.probe_model", lambda table: model)
    report = diagnose()
    assert not report.library.runs
    assert "returns other rows than the packed form" in problems(report)


def test_library_missing_or_broken_is_problem(monkeypatch, tmp_path):
    monkeypatch.setenv(ENVIRONMENT_NAME, str(tmp_path / "missing.so"))
    assert "which is not a file -> set it to the operator library" in problems(diagnose())
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF")
    monkeypatch.setenv(ENVIRONMENT_NAME, str(broken))
    report = diagnose()
    assert report.library is None
    assert f"operator library {broken}, which this system cannot load" in problems(report)
    assert f"unset {ENVIRONMENT_NAME}" in problems(report)


def test_foreign_library_is_problem(monkeypatch):
    foreign = onnxruntime.capi.onnxruntime_pybind11_state.__file__
    monkeypatch.setenv(ENVIRONMENT_NAME, foreign)
    report = diagnose()
    assert report.library is None
    wanted = "which has no function ee_version -> expected the operator library of edge-embed"
    assert problems(report) == f"got {os.path.realpath(foreign)}, {wanted}"


def test_library_without_registration_is_problem(monkeypatch, tmp_path):
    copy = tmp_path / "copy.so"
    content = get_library_path().read_bytes()
    assert content.count(b"RegisterCustomOps\0")
    copy.write_bytes(content.replace(b"RegisterCustomOps\0", b"RegisterNothingXX\0"))
    shutil.copymode(get_library_path(), copy)
    monkeypatch.setenv(ENVIRONMENT_NAME, str(copy))
    report = diagnose()
    assert report.library.path == str(copy)
    assert not report.library.runs
    assert f"cannot run the kernel of {copy}: " in problems(report)
    assert "RegisterCustomOps" in problems(report)
    assert "-> install edge-embed and onnxruntime again" in problems(report)


def test_training_library_is_named_with_instruction_set():
    content = json.loads(json.dumps(diagnose().to_json()))["training"]
    assert content["path"] == str(installed_path("edge_embed_training"))
    assert content["isa"] in ("avx512", "avx2", "portable")
    assert content["lack"] is None


def test_missing_training_library_is_lack_without_problem(monkeypatch, tmp_path):
    missing = {"edge_embed_training": tmp_path / "libedge_embed_training.so"}
    monkeypatch.setattr(library, "installed_path", lambda name: missing.get(name) or installed_path(name))
    report = diagnose()
    assert report.ok
    content = json.loads(json.dumps(report.to_json()))["training"]
    assert (content["path"], content["isa"]) == (None, None)
    assert "libedge_embed_training.so cannot be loaded" in content["lack"]["what"]
    assert "make install" in content["lack"]["remedy"]


def without(monkeypatch, *names):
    """Hide distributions, so that they are not installed and their modules are not found."""
    version = metadata.version

    def found(wanted):
        if wanted in names:
            raise metadata.PackageNotFoundError(wanted)
        return version(wanted)

    monkeypatch.setattr(metadata, "version", found)
    for name in names:
        monkeypatch.setitem(sys.modules, name.replace("-", "_"), None)


def test_missing_core_package_is_problem_with_pip_command(monkeypatch):
    without(monkeypatch, "click")
    report = diagnose()
    assert report.versions["click"] is None
    (wanted,) = (item for item in metadata.requires("edge-embed") if item.startswith("click"))
    assert f'click is not installed -> python -m pip install "{wanted}"' in problems(report)


def test_missing_packages_of_extras_are_no_problem(monkeypatch):
    without(monkeypatch, "torch", "onnx", "onnxscript", "onnx-ir")
    report = diagnose()
    assert (report.problems, report.ok) == ([], True)
    assert report.versions["torch"] is None
    assert report.library.runs
    lacks = {extra.name: set(extra.lacks) for extra in report.extras}
    assert lacks["runtime"] == set()
    assert lacks["inspect"] == {"onnx"}
    assert lacks["export"] == {"torch", "onnx", "onnxscript", "onnx-ir"}


def test_library_without_onnx_runtime_is_found_and_not_run(monkeypatch):
    without(monkeypatch, "onnxruntime")
    report = diagnose()
    assert (report.problems, report.providers) == ([], [])
    assert report.library.path == str(get_library_path())
    assert not report.library.runs
    assert "not run: ONNX Runtime is missing" in str(report)


def test_package_that_fails_to_import_is_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = diagnose()
    assert "cannot import onnxruntime" in problems(report)
    assert report.library is not None
    assert not report.library.runs
