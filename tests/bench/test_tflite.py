"""Benchmark of tables in TFLite runtimes: packed forms are read from the file and measured beside peers."""

import json
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import edge_embed
from edge_embed.bench.tflite_process import WorkerModel
from edge_embed.bench.tflite_tables import TfliteTables
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.packed_form import METHODS
from edge_embed.targets.target import RunFailedError
from edge_embed.targets.tflite.runtimes import TFLITE_RUNTIME

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")

ROWS, DIM = 60, 12


def dpq(num_codes, padding_idx=None, kind="float32", shared=False):
    random = np.random.default_rng(0)
    values = random.normal(size=(1 if shared else 4, num_codes, DIM // 4)).astype(np.float32)
    stored, scales = quantized(values) if kind == "int8" else (values.astype(kind), None)
    codes = random.integers(0, num_codes, (ROWS, 4)).astype(np.uint16)
    return edge_embed.PackedDPQ.from_codes(codes, stored, padding_idx, scales)


def ant(longest, kind="float32"):
    random = np.random.default_rng(0)
    transform = random.random((ROWS, 20)).astype(np.float32) + 0.1
    transform[:, longest:] = 0
    transform[ROWS // 2 :, 1:] = 0
    transform[0] = 0
    return edge_embed.PackedANT.from_dense(transform, random.normal(size=(20, DIM)).astype(np.float32), 0, kind)


def tt():
    layer = edge_embed.TTEmbedding(ROWS, DIM, rank=3, padding_idx=5)
    return edge_embed.lower(layer, torch.tensor([[1, 2]])).tables["embedding"]


# Function that makes a table, chosen layout for DPQ, and resulting layout.
TABLES = {
    "dpq pairs": (lambda: dpq(16, padding_idx=3), "pairs", "pairs"),
    "dpq pairs of 13": (lambda: dpq(13), "pairs", "pairs"),
    "dpq pairs of 2 bits": (lambda: dpq(4), "pairs", "pairs"),
    "dpq pairs shared": (lambda: dpq(16, shared=True), "pairs", "pairs"),
    "dpq pairs float16": (lambda: dpq(16, kind="float16"), "pairs", "pairs"),
    "dpq pairs int8": (lambda: dpq(16, kind="int8"), "pairs", "pairs"),
    "dpq byte": (lambda: dpq(16, padding_idx=3), "byte", "byte"),
    "dpq across bytes": (lambda: dpq(5), None, "byte"),
    "dpq direct": (lambda: dpq(200, padding_idx=3), None, "direct"),
    "ant fixed": (lambda: ant(2), None, "fixed"),
    "ant fixed int8": (lambda: ant(2, "int8"), None, "fixed"),
    "ant csr": (lambda: ant(20), None, "csr"),
    "tt": (tt, None, "cores"),
}
LAYERS = {"dpq": edge_embed.DPQEmbedding, "ant": edge_embed.ANTEmbedding, "tt": edge_embed.TTEmbedding}


def run(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


@pytest.mark.parametrize("name", TABLES)
def test_packed_table_is_read_from_tflite_file(name, tmp_path):
    make, wanted, layout = TABLES[name]
    packed, path = make(), tmp_path / "model.tflite"
    layer = LAYERS[packed.method].from_packed(packed)
    edge_embed.export(layer, "tflite", path, torch.tensor([[1, 2]]), tflite_table=wanted)
    tables = TfliteTables(path)
    found = tables.packed("embedding")
    assert tables.layouts == {"embedding": layout}
    assert (found.method, found.padding_idx) == (packed.method, packed.padding_idx)
    for tensor, array in packed.tensors().items():
        np.testing.assert_array_equal(found.tensors()[tensor], array, strict=True)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    path = tmp_path_factory.mktemp("bag") / "model.tflite"
    layer = edge_embed.DPQEmbeddingBag(300, 16, 16, 4, mode="max", padding_idx=0)
    edge_embed.export(layer, "tflite", path, (torch.tensor([1, 2, 3]), torch.tensor([0, 2])), tflite_table="pairs")
    return path


def test_tflite_file_is_measured_with_its_uses(bag):
    result = run(bag, "--rounds", 2, "--batch", 16, "--ids", "uniform", "--cache", "warm,cold", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [(one["use"], one["cache"]) for one in found["measurements"]] == [
        ("litert-bag (max)", "warm"),
        ("litert-bag (max)", "cold"),
    ]
    for one in found["measurements"]:
        assert one["ours"]["name"] == "TFLite operators"
        peers = {peer["name"]: peer for peer in one["peers"]}
        assert peers.keys() == {"TFLite delegate", "TFLite other layout", "TFLite GATHER"}
        for peer in peers.values():
            assert (peer["reason"], peer["error"] < 1e-5) == ("", True)
            assert 0 < peer["cpu_ratio"]["low"] <= peer["cpu_ratio"]["median"] <= peer["cpu_ratio"]["high"]


@pytest.mark.parametrize("runtime", ["litert", pytest.param("tflite-runtime", marks=pytest.mark.slow)])
def test_random_tables_of_each_method_are_measured(runtime):
    if runtime == "tflite-runtime" and (reason := TFLITE_RUNTIME.reason_against()):
        pytest.skip(reason)
    sizes = "--rows 200 --dim 32 --anchors 10 --nonzeros 2 --rank 2 --batch 8 --ids zipf --rounds 2".split()
    uses = ["--use", f"{runtime},{runtime}-bag", "--cache", "warm,cold"]
    result = run(*sizes, *uses, "--peers", "tflite", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["measurements"]
    assert {(one["method"], one["use"]) for one in found} == {
        (method, use) for method in METHODS for use in (runtime, f"{runtime}-bag (mean)")
    }
    for one in found:
        assert one["ours"]["cpu_microseconds"] > 0
        names = {peer["name"] for peer in one["peers"] if not peer["reason"]}
        assert {"TFLite delegate", "TFLite GATHER"} <= names


def test_changed_tflite_table_is_refused(bag, tmp_path):
    content = bytearray(bag.read_bytes())
    content[content.index(read_tflite(bag).tensors["embedding.pairs"].tobytes())] ^= 1
    path = tmp_path / "changed.tflite"
    path.write_bytes(content)
    with pytest.raises(
        BadInputError, match=r"changed\.tflite: table 'embedding': values: the bytes differ from the exported ones"
    ):
        TfliteTables(path).packed("embedding")
    assert run(path).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--use", "litert", "--memory-megabytes", "1"], "--memory-megabytes: got a value for TFLite files"),
        (["--use", "litert-bag", "--batch", "12"], "batch: got 12, expected a multiple of 8"),
    ],
)
def test_options_not_for_tflite_are_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_missing_litert_is_named_with_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.schema_py_generated", None)
    result = run("--use", "litert", "--method", "tt", "--rows", "200", "--dim", "32", "--rank", "2")
    assert result.exit_code == 1
    assert "edge-embed[tflite]" in result.stderr


@pytest.mark.skipif(bool(TFLITE_RUNTIME.reason_against()), reason="tflite-runtime is not downloaded")
def test_worker_process_ends_with_model_and_reports_failure(bag, tmp_path):
    model = WorkerModel(bag, delegate=True, threads=1)
    process = model._process
    del model
    assert process.poll() == 0
    (tmp_path / "cut.tflite").write_bytes(bag.read_bytes()[:100])
    with pytest.raises(RunFailedError, match=r"tflite-runtime ended with status 1: .*Model"):
        WorkerModel(tmp_path / "cut.tflite", delegate=False, threads=1)
