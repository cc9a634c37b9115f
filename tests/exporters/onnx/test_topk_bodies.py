"""The portable bodies of the largest logits: order, ties and rounding are exact in every runtime."""

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.exporters.onnx import row_blocks
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.topk import topk
from edge_embed.targets.reference import open_reference

from .bodies import LEVELS, TABLES, assert_close, dpq, session, topk_model, tt


def runners(model: onnx.ModelProto) -> dict[str, Any]:
    """Return sessions at every level without the operator library, and the reference evaluator."""
    return {level: session(model, level) for level in LEVELS} | {"reference": open_reference(model)}


def check(packed: Any, hidden: Any, k: int, bias: Any = None) -> None:
    """Assert exact values and ids, for tables whose logits no path rounds differently."""
    feeds = {"hidden": hidden, "bias": np.zeros(0, hidden.dtype) if bias is None else bias}
    expected = topk(packed, hidden, k, bias)
    for way, runner in runners(topk_model(packed, feeds, k)).items():
        for got, wanted in zip(runner.run(None, feeds), expected, strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), way
            np.testing.assert_array_equal(got, wanted, err_msg=way)


def whole_numbers(n: int, padding_idx: int | None = None, seed: int = 0) -> PackedDPQ:
    """Return a table with nine different rows of small whole numbers: many ties, and products exact in every type."""
    random = np.random.default_rng(seed)
    values = random.integers(-2, 3, (2, 3, 2)).astype(np.float32)
    return PackedDPQ.from_codes(random.integers(0, 3, (n, 2)), values, padding_idx)


@settings(max_examples=40)
@given(st.data())
@pytest.mark.slow
def test_topk_order_and_ties_are_exact(data):
    n = data.draw(st.sampled_from([1, 2, 7, 40]), "n")
    packed = whole_numbers(n, data.draw(st.sampled_from([None, 0, n - 1]), "padding"), data.draw(st.integers(0, 9)))
    k, dtype = data.draw(st.integers(1, n), "k"), data.draw(st.sampled_from(["float16", "float32"]), "type")
    shape = (*data.draw(st.sampled_from([(), (1,), (5,), (0,), (2, 3), (2, 0)]), "shape"), 4)
    random = np.random.default_rng(data.draw(st.integers(0, 9), "seed"))
    hidden = random.integers(-2, 3, shape).astype(dtype) * data.draw(st.sampled_from([0, 1]), "factor")
    bias = random.integers(-2, 3, n).astype(dtype) if data.draw(st.booleans(), "biased") else None
    block = data.draw(st.sampled_from([1, 3, 1000]), "rows of a block")
    with pytest.MonkeyPatch.context() as patch:  # blocks of fewer than k rows too
        patch.setattr(row_blocks, "_BLOCK_NUMBERS", 4 * block)
        check(packed, hidden.astype(dtype), k, bias)


@pytest.mark.parametrize("method", TABLES)
@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_topk_bodies_match_packed_form(method, kind, dtype):
    packed = TABLES[method](dtype=kind, padding_idx=3)
    random = np.random.default_rng(0)
    hidden = random.standard_normal((2, 3, packed.embedding_dim)).astype(dtype)
    feeds = {"hidden": hidden, "bias": random.standard_normal(20).astype(dtype)}
    model = topk_model(packed, feeds, 8)
    onnx.checker.check_model(model, full_check=True)
    values, ids = topk(packed, hidden, 8, feeds["bias"])
    for way, runner in runners(model).items():
        got = runner.run(None, feeds)
        assert_close(got[0], values.astype(np.float64), np.abs(values) + 10, way, min(np.dtype(kind), np.dtype(dtype)))
        np.testing.assert_array_equal(got[1], ids, err_msg=way)  # no two logits are near each other


@pytest.mark.parametrize("n", [1000, 3000])
def test_topk_of_a_thousand_rows_over_several_blocks_is_exact(n):
    """A block has 524,288 numbers, here 1,024 rows."""
    random = np.random.default_rng(0)
    values = random.integers(-1, 2, (4, 16, 128)).astype(np.float32)
    packed = PackedDPQ.from_codes(random.integers(0, 16, (n, 4)), values, n - 1)
    check(packed, random.integers(-1, 2, (2, 512)).astype(np.float32), 1000)


def test_half_precision_is_rounded_before_and_after_bias():
    """float16 has no 2049; without a rounding other rows come first."""
    values = np.array([[[2048.0], [2049.0], [-2047.0]]], np.float32)
    packed = PackedDPQ.from_codes(np.array([[0], [1], [0], [2]]), values)
    hidden = np.ones((1, 1), np.float16)
    check(packed, hidden, 4)
    check(packed, hidden, 4, np.array([0, 1, 1, 4096], np.float16))  # 2049 + 1 would be 2050
    check(packed, hidden.astype(np.float32), 4, np.array([0, 1, 1, 4096], np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("k", [1, 7, 20])
def test_nan_states_give_different_valid_ids(bad, k, monkeypatch):
    monkeypatch.setattr(row_blocks, "_BLOCK_NUMBERS", 12 * 5)
    packed = dpq()
    hidden = np.ones((3, 12), np.float32)
    hidden[0], hidden[1, 3] = bad, bad
    feeds = {"hidden": hidden, "bias": np.zeros(0, np.float32)}
    for runner in runners(topk_model(packed, feeds, k)).values():
        with np.errstate(invalid="ignore"):
            ids = runner.run(None, feeds)[1]
        for row in ids.tolist():
            assert len(set(row)) == k
            assert all(0 <= found < 20 for found in row)


_PEAK = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, ["CPUExecutionProvider"])
hidden = np.ones((int(sys.argv[2]), 512), np.float32)
session.run(None, {"hidden": hidden, "bias": np.zeros(0, np.float32)})
# ru_maxrss would begin at what the process of the tests holds.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_logits_are_never_materialised_whole(tmp_path):
    """256 states and 100,000 rows have 98 MiB of logits; 1 MiB is in memory at a time."""
    packed = tt(100_000, (50, 50, 40), (8, 8, 8), 2)
    feeds = {"hidden": np.ones((256, 512), np.float32), "bias": np.zeros(0, np.float32)}
    path = tmp_path / "topk.onnx"
    path.write_bytes(topk_model(packed, feeds, 10).SerializeToString())
    peaks = [
        int(subprocess.run([sys.executable, "-c", _PEAK, str(path), states], capture_output=True, check=True).stdout)
        for states in ("1", "256")
    ]
    assert peaks[1] - peaks[0] < 50 << 10  # KiB
