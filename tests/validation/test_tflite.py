"""Validation of TFLite files: passes for exports, fails for differences, refuses files that do not fit."""

import re
import shutil

import flatbuffers
import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.inspection.report import PortInfo
from edge_embed.targets.tflite.runtimes import TFLITE_RUNTIME
from edge_embed.validation.model_inputs import make_cases
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.tflite.signatures import narrowed
from edge_embed.workflow import load

schema = pytest.importorskip(
    "ai_edge_litert.schema_py_generated", reason="the extra edge-embed[tflite] is not installed"
)

QUICK = ValidationOptions(iterations=0)
LAYERS = {
    "dpq": lambda: edge_embed.DPQEmbedding(300, 16, 16, 4, padding_idx=0),
    "ant": lambda: edge_embed.ANTEmbedding(300, 16, 10),
    "tt": lambda: edge_embed.TTEmbedding(300, 16, rank=2),
    "tr": lambda: edge_embed.TREmbedding(300, 16, rank=2, padding_idx=0),
    "bag": lambda: edge_embed.ANTEmbeddingBag(300, 16, 10, mode="mean"),
}


def export(folder, method):
    torch.manual_seed(0)
    example = (torch.tensor([1, 2, 3]), torch.tensor([0, 2])) if method == "bag" else torch.tensor([[1, 2]])
    edge_embed.save(LAYERS[method](), folder / "model.pt", example)
    edge_embed.export(folder / "model.pt", "tflite", folder / "model.tflite")
    return folder


@pytest.fixture(scope="module")
def dpq(tmp_path_factory):
    return export(tmp_path_factory.mktemp("dpq"), "dpq")


@pytest.mark.parametrize("method", LAYERS)
def test_export_passes_on_every_installed_runtime(tmp_path, method):
    folder = export(tmp_path, method)
    report = edge_embed.validate(folder / "model.pt", folder / "model.tflite", options=QUICK)
    assert (report.exit_code, report.failures()) == (0, [])
    (table,) = report.tables
    assert {check.name: check.status for check in table.checks}["stored rows"] == "passed"
    found = {check.name.partition(",")[0]: check.status for check in table.paths}
    expected = "not run" if TFLITE_RUNTIME.reason_against() else "passed"
    names = ("training form", "packed oracle", "litert", "litert with the delegate")
    old = ("tflite-runtime", "tflite-runtime with the delegate")
    assert found == dict.fromkeys(names, "passed") | dict.fromkeys(old, expected)
    assert {path.name: path.status for path in report.model.paths} == found
    assert sum(part.bytes for part in report.sizes.parts) == report.sizes.on_disk
    if method == "dpq":
        assert all(check.detail.startswith("bit-identical") for check in table.paths if check.status == "passed")


class Named(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.embedding = layer

    def forward(self, ids):
        return {"rows": self.embedding(ids), "ids": ids}


def test_file_with_other_outputs_fails(dpq, tmp_path):
    edge_embed.save(Named(LAYERS["dpq"]()), tmp_path / "named.pt", torch.tensor([[1, 2]]))
    report = edge_embed.validate(tmp_path / "named.pt", dpq / "model.tflite", options=QUICK)
    assert report.exit_code == 3
    assert report.failures()[0] == "file: structure: got outputs output; expected rows, ids_output: export again"


def test_output_types_are_found_by_name(tmp_path):
    """A converted file has int32 in place of int64, and its outputs may have another order."""
    edge_embed.save(Named(LAYERS["dpq"]()), tmp_path / "named.pt", torch.tensor([[1, 2]]))
    program = load(tmp_path / "named.pt")
    (case, *_), _ = make_cases(program, np.random.default_rng(0))
    ports = [PortInfo("ids_output", "int32", [1, 2]), PortInfo("rows", "float32", [1, 2, 16])]
    for given in (ports, ports[::-1], ports[:1]):
        rows, ids = narrowed(case, program, given).outputs
        assert (rows.dtype, ids.dtype) == (torch.float32, torch.int32)


@pytest.mark.parametrize("tensor", ["codes", "values"])
def test_tensor_with_flipped_bit_fails(dpq, tmp_path, tensor):
    from edge_embed.inspection.tflite_file import read_tflite

    path = shutil.copy(dpq / "model.tflite", tmp_path / "changed.tflite")
    content = bytearray(path.read_bytes())
    content[content.index(read_tflite(path).tensors[f"embedding.{tensor}"].tobytes()) + 7] ^= 64
    path.write_bytes(content)
    report = edge_embed.validate(dpq / "model.pt", path, options=QUICK)
    assert report.exit_code == 3
    assert f"file: numbers as exported: embedding.{tensor}: byte 7: got" in report.failures()[0]
    assert f"table embedding: stored rows: embedding.{tensor} differs" in report.failures()[1]


def change_manifest(exported, path, old, new):
    """Write the file with other manifest lines for the delegate."""
    model = schema.ModelT.InitFromPackedBuf(exported.read_bytes())
    (entry,) = (entry for entry in model.metadata if entry.name == b"edge_embed.delegate")
    buffer = model.buffers[entry.buffer]
    text = bytes(buffer.data).decode()
    assert re.search(old, text)
    buffer.data = list(re.sub(old, new, text).encode())
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("padding_idx=0", "padding_idx=5", "values differ"),
        ("codes=embedding.codes", "codes=embedding.lost", "edge_embed: "),
        ("edge_embed 1", "edge_embed 2", "edge_embed: "),
    ],
    ids=["another row of zeros", "a tensor that is not there", "another version"],
)
def test_delegate_line_that_is_wrong_fails(dpq, tmp_path, old, new, told):
    """The manifest check and the delegate's results both fail."""
    path = tmp_path / "changed.tflite"
    change_manifest(dpq / "model.tflite", path, old, new)
    report = edge_embed.validate(dpq / "model.pt", path, options=QUICK)
    assert report.exit_code == 3
    (manifest,) = (check for check in report.structure if check.name == "manifest of the delegate")
    paths = {found.name: found for found in report.model.paths}
    assert (manifest.status, paths["litert"].status) == ("failed", "passed")
    assert paths["litert with the delegate"].status == "failed"
    assert told in paths["litert with the delegate"].detail


def test_delegate_without_manifest_line_is_not_run(dpq, tmp_path):
    path = tmp_path / "changed.tflite"
    change_manifest(dpq / "model.tflite", path, "rows dpq.*\n", "")
    report = edge_embed.validate(dpq / "model.pt", path, options=QUICK)
    (found,) = (found for found in report.model.paths if found.name == "litert with the delegate")
    assert (report.exit_code, found.status) == (3, "not run")
    assert "the delegate has no kernel for any operator of the file" in found.detail


def test_file_of_another_model_fails(dpq, tmp_path):
    other = export(tmp_path, "tt")
    report = edge_embed.validate(dpq / "model.pt", other / "model.tflite", options=QUICK)
    assert report.exit_code == 3
    assert "table embedding: layout" in report.failures()[0]


def test_latency_is_measured_against_dense_table(dpq):
    options = ValidationOptions(iterations=3, warmup=0)
    report = edge_embed.validate(dpq / "model.pt", dpq / "model.tflite", options=options)
    measured = {(result.subject, result.ids, result.distribution, result.peer) for result in report.latency.results}
    assert measured == {
        (subject, ids, kind, "dense GATHER")
        for subject in ("table embedding", "table embedding, delegate")
        for ids in (1, 128, 4096)
        for kind in ("uniform", "zipf")
    }
    assert all(result.ratio > 0 for result in report.latency.results)
    assert "ai-edge-litert" in report.latency.machine["runtime"]


def test_target_for_other_files_is_refused(dpq):
    with pytest.raises(BadInputError, match=r"got 'local' for onnx files, expected one for tflite: litert"):
        edge_embed.validate(dpq / "model.pt", dpq / "model.tflite", options=ValidationOptions(targets=("local",)))


def test_target_reports_times_and_versions(dpq):
    options = ValidationOptions(iterations=3, warmup=0, targets=("litert",))
    (target,) = edge_embed.validate(dpq / "model.pt", dpq / "model.tflite", options=options).targets
    assert (target.name, target.status, len(target.times.calls)) == ("litert", "passed", 3)
    assert "ai-edge-litert" in target.versions


def test_cut_file_is_refused(dpq, tmp_path):
    (tmp_path / "cut.tflite").write_bytes((dpq / "model.tflite").read_bytes()[:500])
    with pytest.raises(BadInputError, match=r"cut\.tflite: is damaged or not a TFLite model"):
        edge_embed.validate(dpq / "model.pt", tmp_path / "cut.tflite", options=QUICK)
    with pytest.raises(BadInputError, match=r"absent\.tflite: there is no such file"):
        edge_embed.validate(dpq / "model.pt", tmp_path / "absent.tflite", options=QUICK)
