"""Contents of a file: packed tables without a dense one, operators of both runtimes, aligned buffers, metadata."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite import flatbuffer
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.exporters.tflite.graph import OPERATORS
from edge_embed.packed.manifest import write_manifest

_ARITHMETIC = {"ADD", "SUB", "LESS", "EQUAL", "NOT_EQUAL", "MUL", "DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM"}


class Twice(nn.Module):
    """One table, looked up for two inputs."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(5000, 32, 16, 8, padding_idx=0)

    def forward(self, left, right):
        return self.words(left), self.words(right)


def large(method):
    if method == "dpq":
        return edge_embed.DPQEmbedding(50_000, 64, 16, 16)
    if method == "ant":
        layer = edge_embed.ANTEmbedding(20_000, 64, 50)
        with torch.no_grad():
            layer.transform *= torch.rand_like(layer.transform) < 0.1
        return layer
    return edge_embed.TTEmbedding(50_000, 64, rank=8)


@pytest.fixture(params=["dpq", "ant", "tt"])
def exported(request, export):
    return export(large(request.param))


def test_file_holds_packed_form_and_chosen_table_only(exported):
    (added,) = (table.added_bytes for table in exported.file.tables)
    packed = exported.table.nbytes
    assert exported.path.stat().st_size <= 1.02 * packed + added + 8192
    dense = 4 * exported.table.num_embeddings * exported.table.embedding_dim
    assert exported.path.stat().st_size < dense / 3
    assert max(content.nbytes for content in exported.content.tensors.values()) <= packed


def test_operators_never_depend_on_constants_only(exported):
    """No runtime and no other tool can fold an operator."""
    schema = load_schema()
    model = schema.ModelT.InitFromPackedBuf(exported.path.read_bytes(), 0)
    (graph,) = model.subgraphs
    constant = {at for at, tensor in enumerate(graph.tensors) if model.buffers[tensor.buffer].data is not None}
    for operator in graph.operators:
        assert not set(operator.inputs) <= constant


def _operators(path):
    """Return name and input types of every operator."""
    schema = load_schema()
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    kinds = {number: name.lower() for name, number in vars(schema.TensorType).items() if not name.startswith("_")}
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    (graph,) = model.subgraphs
    for operator in graph.operators:
        types = [kinds[graph.tensors[at].type] for at in operator.inputs]
        yield names[model.operatorCodes[operator.opcodeIndex].builtinCode], types


@pytest.mark.parametrize("value_type", ["float32", "float16", "int8"])
@pytest.mark.parametrize("num_codes", [5, 16, 200, 300])
def test_operators_compute_on_types_that_are_not_quantised(export, num_codes, value_type):
    layer = edge_embed.DPQEmbedding(400, 12, num_codes, 3, padding_idx=0).eval()
    layer.freeze(value_type=value_type)
    found = list(_operators(export(layer).path))
    assert {name for name, _ in found} <= OPERATORS.keys()
    for name, types in found:
        if name in _ARITHMETIC:
            assert not {"int8", "uint8", "int16"} & set(types), name


def test_buffers_are_aligned_to_64_bytes(exported):
    content = exported.path.read_bytes()
    model = load_schema().Model.GetRootAs(content, 0)
    for at in range(1, model.BuffersLength()):
        data = model.Buffers(at).DataAsNumpy()
        begin = data.__array_interface__["data"][0] - np.frombuffer(content, np.uint8).__array_interface__["data"][0]
        assert begin % 64 == 0
        assert data.nbytes


def test_sizes_of_inputs_and_outputs_are_dynamic(exported):
    (port,) = exported.content.inputs
    assert port.shape == [None, None]
    assert exported.content.outputs[0].shape == [None, None, 64]
    assert exported.file.dynamic["ids"] == ["batch", "sequence"]


def test_table_used_twice_is_stored_once(export):
    exported = export(Twice(), (torch.tensor([[1, 2]]), torch.tensor([[3, 4]], dtype=torch.int32)))
    assert [port.dtype for port in exported.content.inputs] == ["int64", "int32"]
    assert exported.path.stat().st_size < 1.5 * exported.table.nbytes
    ids = np.array([[9, 0]])
    assert exported.opened()(ids, ids.astype(np.int32)).tobytes() == exported.table.rows(ids).tobytes()


def test_metadata_holds_manifest_vocabulary_and_own_values(export):
    options = {"vocabulary": [f"wörd{index}" for index in range(20)], "metadata": {"task": "words"}}
    exported = export(edge_embed.DPQEmbedding(20, 12, 16, 4), **options)
    metadata = exported.content.metadata
    assert metadata["edge_embed.tables"] == write_manifest(exported.lowered.tables)
    assert json.loads(metadata["edge_embed.vocabulary"]) == options["vocabulary"]
    assert json.loads(metadata["edge_embed.metadata"]) == options["metadata"]


def test_export_twice_gives_same_bytes(export):
    layer = edge_embed.DPQEmbedding(200, 12, 16, 4)
    assert export(layer).path.read_bytes() == export(layer).path.read_bytes()


def test_model_too_large_for_one_file_is_refused_without_output(export, monkeypatch, tmp_path):
    monkeypatch.setattr(flatbuffer, "_MOST_BYTES", 10_000)
    with pytest.raises(
        BadInputError,
        match=r"exceed the limit of one TFLite file, 2 GB.*fewer bits a row.*target "
        r"onnx",
    ):
        export(edge_embed.DPQEmbedding(5000, 32, 16, 8))
    assert not list(tmp_path.rglob("*.tflite"))
    assert not list(tmp_path.rglob(".edge-embed-*"))
