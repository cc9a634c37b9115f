"""Portable output layers of DPQ compute the logits of a few states from the bytes of the codes."""

import json

import numpy as np
import pytest
from onnx import numpy_helper

from edge_embed.exporters.onnx import dpq_scores
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import topk
from edge_embed.targets.reference import open_reference

from .bodies import assert_close, dpq, logits_model, results, session, topk_model

ROWS = 4096  # the fewest rows that repay the tables of a call


@pytest.fixture
def any_rows(monkeypatch):
    monkeypatch.setattr(dpq_scores, "_FEWEST_ROWS", 1)


def states(packed, count):
    return np.random.default_rng(0).standard_normal((count, packed.embedding_dim)).astype(np.float32)


def executed(packed, count, tmp_path):
    """Return the operators that a session executed for some states."""
    feeds = {"hidden": states(packed, count)}
    opened = session(logits_model(packed, feeds["hidden"]), profile=str(tmp_path / "profile"))
    opened.run(None, feeds)
    with open(opened.end_profiling()) as file:
        return {event.get("args", {}).get("op_name") for event in json.load(file)}


@pytest.mark.parametrize(
    ("rows", "codes", "count", "by_bytes"),
    [
        (ROWS, 16, 8, True),  # 8 states of 4 bytes a row, and 32 columns
        (ROWS, 16, 9, False),
        (ROWS, 200, 4, True),
        (ROWS, 17, 1, False),  # a byte holds no whole number of codes of 5 bits
        (ROWS - 1, 16, 1, False),
    ],
)
def test_rows_are_computed_only_where_bytes_take_longer(rows, codes, count, by_bytes, tmp_path):
    packed = dpq(rows, codes, groups=8, width=4)
    assert ("Tile" in executed(packed, count, tmp_path)) == by_bytes


@pytest.mark.parametrize(
    ("codes", "groups", "dtype"),
    [
        (2, 11, "float32"), (4, 6, "int8"), (5, 4, "float32"), (11, 5, "float16"), (16, 4, "float32"),
        (16, 5, "int8"), (200, 3, "float32"), (256, 3, "float16"), (300, 3, "float32"),
    ],
)  # fmt: skip
def test_logits_by_bytes_match_packed_form(codes, groups, dtype, any_rows):
    """The last byte of a row holds fewer codes, fewer codes are used than fit, or a code has no byte of its own."""
    packed = dpq(300, codes, groups, 4, codes == 4, dtype, padding_idx=299)
    for count in (0, 1, 3):
        hidden = states(packed, count)
        for way, got in results(logits_model(packed, hidden), {"hidden": hidden}).items():
            assert_close(got, *logits(packed, hidden), way, np.dtype(packed.row_type))
            assert not got[:, 299].any(), way


def test_logits_by_bytes_of_unknown_codes_read_last_code(any_rows):
    packed = dpq(20, 11, 8, 4)
    hidden = states(packed, 1)
    model = logits_model(packed, hidden)
    (stored,) = [tensor for tensor in model.graph.initializer if tensor.name == "codes"]
    stored.CopyFrom(numpy_helper.from_array(np.full_like(packed.codes, 255), "codes"))
    last = PackedDPQ.from_codes(np.full((20, 8), 10), packed.values)
    for way, got in results(model, {"hidden": hidden}).items():
        assert_close(got, *logits(last, hidden), way)


def test_topk_by_bytes_is_exact_over_several_blocks():
    """Blocks have 1,024 rows; whole numbers are exact in every order, and many rows are equal."""
    random = np.random.default_rng(0)
    values = random.integers(-1, 2, (4, 16, 128)).astype(np.float32)
    packed = PackedDPQ.from_codes(random.integers(0, 16, (ROWS + 100, 4)), values, ROWS)
    feeds = {"hidden": random.integers(-1, 2, (2, 512)).astype(np.float32), "bias": np.zeros(0, np.float32)}
    model = topk_model(packed, feeds, 1000)
    expected = topk(packed, feeds["hidden"], 1000)
    for runner in (session(model), session(model, "DISABLE_ALL"), open_reference(model)):
        for got, wanted in zip(runner.run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
