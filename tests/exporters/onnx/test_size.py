"""Files and sessions hold each packed table once, and the kernel runs."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from torch import nn

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.runtime.library import get_library_path
from edge_embed.runtime.session import create_session

LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")


class Model(nn.Module):
    """Two tables of different bits, one of them used twice, before an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.small = DPQEmbedding(20_000, 64, 16, 16, padding_idx=0)
        self.large = DPQEmbedding(9_000, 64, 300, 8, share_subspaces=True)
        self.lstm, self.head = nn.LSTM(64, 32, batch_first=True), nn.Linear(32, 50)

    def forward(self, ids: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        both = self.small(ids) + self.large(ids) + self.small(others)
        return self.head(self.lstm(both)[0])


def node_names(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.domain == "edge_embed"]


EXAMPLE = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[7, 8, 9], [0, 1, 6]])


def rest_of(model: onnx.ModelProto) -> int:
    """Return the bytes of the weights that belong to no table."""
    return sum(
        numpy_helper.to_array(tensor).nbytes
        for tensor in model.graph.initializer
        if not tensor.name.endswith((".codes", ".values"))
    )


@pytest.mark.parametrize("external_data", ["auto", "always"])
def test_session_holds_tables_packed(export, optimize, count_bytes, external_data):
    """No level, with or without the library, holds a dense table or codes as int64."""
    exported = export(Model(), EXAMPLE, external_data)
    packed = sum(table.nbytes for table in exported.lowered.tables.values())
    rest = rest_of(onnx.load(exported.path))
    assert packed == 20_000 * 8 + 4 * 16 * 64 + 9_000 * 9 + 4 * 300 * 8
    for level in LEVELS:
        for portable in (False, True):
            seen = optimize(exported.path, level, portable)
            assert count_bytes(seen) <= 1.05 * packed + rest, (level, portable)
            # The node stays with the library; without the library no node or body of the domain edge_embed stays.
            assert node_names(seen) == ([] if portable else ["DPQEmbedding"] * 3), (level, portable)
            assert bool(seen.functions) is False


def test_count_bytes_finds_constants_in_subgraphs(count_bytes):
    """The sum of the tests above includes a table in a Constant or in a loop body."""
    inner = onnx.parser.parse_graph("g (float x) => (float y) <float[4] w = {1,2,3,4}> { y = Identity(x) }")
    outer = onnx.parser.parse_graph("m (float x) => (float[2] c) { c = Constant<value = float[2] {1, 2}>() }")
    outer.node.append(onnx.helper.make_node("Loop", ["n", "c", "x"], ["z"], body=inner))
    assert count_bytes(onnx.helper.make_model(outer)) == 4 * 4 + 2 * 4


def bound(n: int, dim: int, codes: int, groups: int, shared: bool, value_bytes: int = 4) -> float:
    tables = 1 if shared else groups
    scales = 4 * tables if value_bytes == 1 else 0
    table = (
        n * math.ceil(groups * math.ceil(math.log2(codes)) / 8) + value_bytes * codes * tables * dim // groups + scales
    )
    return 1.01 * table + 16 * 1024


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_file_size_stays_below_bound(export, data):
    groups, width = data.draw(st.integers(1, 16), "D"), data.draw(st.integers(1, 8), "s")
    codes = data.draw(st.sampled_from([2, 3, 16, 17, 100, 256, 257, 1000]), "K")
    n, shared = data.draw(st.integers(1, 5000), "n"), data.draw(st.booleans(), "shared")
    value_type, value_bytes = data.draw(st.sampled_from([("float32", 4), ("float16", 2), ("int8", 1)]), "values")
    layer = DPQEmbedding(n, groups * width, codes, groups, share_subspaces=shared).freeze(value_type)
    exported = export(layer, torch.zeros(1, 2, dtype=torch.int64))
    size = sum(path.stat().st_size for path in exported.file.files)
    assert size <= bound(n, groups * width, codes, groups, shared, value_bytes)
    assert size >= exported.lowered.tables["embedding"].nbytes


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_file_size_stays_below_bound_in_many_examples(export, data):
    test_file_size_stays_below_bound.hypothesis.inner_test(export, data)


@pytest.mark.parametrize("external_data", ["never", "always"])
def test_file_size_of_whole_model_stays_below_bound(export, external_data):
    exported = export(Model(), EXAMPLE, external_data)
    weights = [p for name, p in exported.model.named_parameters() if name.startswith(("lstm", "head"))]
    rest = sum(weight.numel() * 4 for weight in weights)
    size = sum(path.stat().st_size for path in exported.file.files)
    assert size <= bound(20_000, 64, 16, 16, False) + bound(9_000, 64, 300, 8, True) + rest


@pytest.mark.parametrize("portable", [False, True])
def test_optimised_file_gives_same_rows(export, make_table, optimize, portable):
    """The file that ONNX Runtime saves after optimising gives the same rows."""
    exported = export(make_table(num_codes=300, padding_idx=2))
    ids = np.arange(20).reshape(4, 5)
    for level in ("ENABLE_BASIC", "ENABLE_ALL"):
        model = optimize(exported.path, level, portable)
        options = ort.SessionOptions()
        if not portable:
            options.register_custom_ops_library(str(get_library_path()))
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        assert session.run(None, {"ids": ids})[0].tobytes() == exported.trained(torch.from_numpy(ids))[0].tobytes()


def test_profile_names_kernel_instead_of_body(export, tmp_path):
    """ONNX Runtime's profile names the executed nodes."""
    exported = export(Model(), EXAMPLE)
    executed = {}
    for portable in (False, True):
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / f"profile_{portable}")
        session = create_session(exported.path, portable, options)
        ids = np.ones((2, 3), np.int64)
        session.run(None, {"ids": ids, "others": ids + 1})
        events = json.loads(Path(session.end_profiling()).read_text())
        executed[portable] = [event.get("args", {}).get("op_name") for event in events]
    assert executed[False].count("DPQEmbedding") == 3
    assert "BitwiseAnd" not in executed[False]
    assert "BitwiseAnd" in executed[True]
    assert "DPQEmbedding" not in executed[True]
