"""Files and sessions hold ANT and TT tables packed and once, for every use."""

import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from torch import nn

import edge_embed

LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")
OVERHEAD = 32 * 1024  # graph, manifest, and the bodies of all uses


def sparse(n: int, dim: int, anchors: int, **options) -> edge_embed.ANTEmbedding:
    layer = edge_embed.ANTEmbedding(n, dim, num_anchors=anchors, **options)
    with torch.no_grad():
        layer.transform.mul_(torch.rand_like(layer.transform) < 4 / anchors)
    return layer


class Tied(nn.Module):
    """One table with a lookup and an output layer, and another with bags."""

    def __init__(self, words: nn.Module, bags: nn.Module) -> None:
        super().__init__()
        self.words, self.bags, self.output = words, bags, edge_embed.TiedOutput(words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.words(ids)) + self.bags(ids).unsqueeze(1))


def make(method: str) -> Tied:
    n, dim = 12_000, 32
    if method == "ant":
        bags = edge_embed.ANTEmbeddingBag(n, dim, num_anchors=20)
        with torch.no_grad():
            bags.transform.mul_(torch.rand_like(bags.transform) < 0.2)
        return Tied(sparse(n, dim, 20), bags)
    if method == "tt":
        return Tied(edge_embed.TTEmbedding(n, dim, rank=16), edge_embed.TTEmbeddingBag(n, dim, rank=16))
    if method == "tt ordered":
        options = {"rank": 16, "row_order": torch.arange(n - 1, -1, -1)}
        return Tied(edge_embed.TTEmbedding(n, dim, **options), edge_embed.TTEmbeddingBag(n, dim, **options))
    options = {"num_codes": 16, "num_groups": 8}
    model = Tied(edge_embed.DPQEmbedding(n, dim, **options), edge_embed.DPQEmbeddingBag(n, dim, **options))
    if method == "dpq int8":
        model.words.freeze("int8")
        model.bags.freeze("int8")
    return model


@pytest.mark.parametrize("method", ["ant", "dpq", "dpq int8", "tt", "tt ordered"])
@pytest.mark.slow
def test_session_holds_tables_of_all_uses_packed(export, optimize, count_bytes, method):
    exported = export(make(method), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    tables = exported.lowered.tables
    assert set(tables) == {"words", "bags"}
    packed = sum(table.nbytes for table in tables.values())
    stored = sum(numpy_helper.to_array(tensor).nbytes for tensor in onnx.load(exported.path).graph.initializer)
    assert stored <= packed + 1024
    for level in LEVELS:
        for portable in (False, True):
            seen = optimize(exported.path, level, portable)
            assert count_bytes(seen) <= 1.05 * packed + 8192, (level, portable)
            own = sorted(node.op_type for node in seen.graph.node if node.domain == "edge_embed")
            prefix = method.split()[0].upper()
            expected = [f"{prefix}Embedding", f"{prefix}EmbeddingBag", f"{prefix}Logits"]
            assert own == ([] if portable else expected), (level, portable)


def test_output_layers_of_fixed_size_keep_no_row_order_per_state(export, optimize, count_bytes):
    class OutputLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = edge_embed.TiedOutput(edge_embed.TTEmbedding(12_000, 32, 4, row_order=torch.arange(12_000)))

        def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.output(hidden), *self.output.topk(hidden, 3)

    exported = export(OutputLayer(), torch.randn(16, 32))
    (table,) = exported.lowered.tables.values()
    model = onnx.load(exported.path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 16
    onnx.save(model, exported.path)
    for level in LEVELS:
        for portable in (False, True):
            assert count_bytes(optimize(exported.path, level, portable)) <= 1.05 * table.nbytes + 8192, (
                level,
                portable,
            )


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_file_size_of_ant_stays_below_bound(export, data):
    n, dim = data.draw(st.integers(1, 3000), "n"), data.draw(st.integers(1, 40), "d")
    anchors = data.draw(st.sampled_from([1, 7, 256, 257]), "A")
    weight_type, weight_bytes = data.draw(st.sampled_from([("float32", 4), ("float16", 2), ("int8", 1)]), "weights")
    layer = sparse(n, dim, anchors).freeze(weight_type=weight_type)
    exported = export(layer, torch.zeros(1, 2, dtype=torch.int64))
    nonzeros, index_bytes = len(layer.weights), 1 if anchors <= 256 else 2
    bound = nonzeros * (weight_bytes + index_bytes) + 4 * (n + 1) + 4 * anchors * dim
    assert sum(path.stat().st_size for path in exported.file.files) <= 1.01 * bound + OVERHEAD


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_file_size_of_tt_stays_below_bound(export, data):
    n, dim = data.draw(st.integers(1, 100_000), "n"), data.draw(st.sampled_from([1, 8, 60, 64]), "d")
    layer = edge_embed.TTEmbedding(n, dim, rank=data.draw(st.integers(1, 16), "R"))
    exported = export(layer, torch.zeros(1, 2, dtype=torch.int64))
    bound = 4 * sum(core.numel() for core in layer.cores)
    assert sum(path.stat().st_size for path in exported.file.files) <= 1.01 * bound + OVERHEAD
