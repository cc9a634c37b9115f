"""Nodes of DPQ tables with row scales, without a body, so that a session requires the kernel."""

from itertools import pairwise

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from ort_nodes import Table, assert_close, assert_same_bits, make_graph_input, open_session, run, run_all

from edge_embed.exporters.onnx.nodes.dpq import SCALED_DPQ
from edge_embed.packed.dpq import PackedDPQ

from ..exporters.onnx.bodies import dpq, node_of, scaled


class Packed(Table):
    """A packed table; its rows are those of the packed form."""

    name = SCALED_DPQ.prefix

    def __init__(self, packed: PackedDPQ, **changed: np.ndarray) -> None:
        self.packed, self.dtype, self.changed = packed, packed.rows(0).dtype.type, changed

    def tensors(self) -> dict[str, np.ndarray]:
        return self.packed.tensors() | self.changed

    def attributes(self) -> dict[str, int]:
        node, _, _ = node_of(self.packed, "rows", ["ids"], "rows")
        return {attribute.name: attribute.i for attribute in node.attribute}


def integers(bits: int, columns: int = 20) -> PackedDPQ:
    """Return rows of integers, as ``compress --method rows`` makes them."""
    half = 1 << bits - 1
    values = np.arange(-half, half, dtype=np.float32).reshape(1, -1, 1)
    codes = np.random.default_rng(bits).integers(0, 2 * half, (50, columns))
    return scaled(PackedDPQ.from_codes(codes, values, padding_idx=3), unused=0)


CASES = {
    **{f"{bits} bits": integers(bits) for bits in (2, 3, 4, 8)},
    "groups": scaled(dpq(n=50, padding_idx=3), unused=2),
    "float16": scaled(dpq(n=50, dtype="float16"), unused=1),
    "float16 without scales": scaled(dpq(n=50, dtype="float16"), unused=1, count=0),
    "int8": scaled(dpq(n=50, dtype="int8"), unused=1),
    "int8 without scales": scaled(dpq(n=50, dtype="int8"), unused=1, count=0),
    "256 scales": scaled(dpq(n=50), unused=0, count=256),
}
OFFSETS = np.array([0, 3, 3, 40, 49, 50])


@pytest.mark.parametrize("case", CASES)
def test_scaled_uses_match_packed_form(case):
    table = Packed(CASES[case])
    packed, random, ids = table.packed, np.random.default_rng(0), np.arange(49, -1, -1)
    expected = packed.rows(ids)
    assert_same_bits(run(open_session(table.model(rank=1)), ids), expected)
    given = make_graph_input(table.model(TensorProto.INT32, rank=1))
    (rows,) = open_session(given).run(None, {"ids": ids.astype(np.int32), **table.tensors()})
    assert_same_bits(rows, expected)

    exact, weights = expected.astype(np.float64), random.standard_normal(50).astype(table.dtype)
    none = np.zeros(0, table.dtype)
    for mode, weighted in ((0, 0), (0, 1), (1, 0), (2, 0)):
        got = run(open_session(table.bag_model(mode, weighted)), ids, OFFSETS, weights if weighted else none)
        terms = exact * (weights.astype(np.float64)[:, None] if weighted else 1)
        keep = ids != (-1 if packed.padding_idx is None else packed.padding_idx)
        for bag, (first, last) in enumerate(pairwise(OFFSETS)):
            some = terms[first:last][keep[first:last]]
            reduce = (np.sum, np.mean, np.max)[mode] if len(some) else np.sum
            sums = np.abs(some).sum(0) / (len(some) if mode == 1 and len(some) else 1)
            assert_close(got[bag], table.dtype, reduce(some, axis=0), sums)

    for kind in (np.float32, np.float16):
        hidden = random.standard_normal((3, packed.embedding_dim)).astype(kind)
        rows = packed.rows_float64(np.arange(50))
        terms = np.abs(hidden.astype(np.float64)) @ np.abs(rows).T
        logits = run(open_session(table.logits_model(kind)), hidden)
        assert_close(logits, kind, hidden.astype(np.float64) @ rows.T, terms)
        best, top = run_all(open_session(table.topk_model(7, dtype=kind)), hidden, np.zeros(0, kind))
        order = np.argsort(-logits.astype(np.float64), axis=1, kind="stable")[:, :7]
        assert_same_bits(top, order)
        assert_same_bits(best, np.take_along_axis(logits, order, 1))


@pytest.mark.parametrize("case", ["4 bits", "2 bits", "groups"])
def test_scaled_row_with_damaged_scale_code_is_refused(case):
    packed = CASES[case]
    codes = packed.row_scale_codes.copy()
    codes[17] = len(packed.row_scales)
    table = Packed(packed, row_scale_codes=codes)
    message = "row 17 of the table cannot be read, the row_scale_code of a row is not below num_row_scales"
    hidden, none = np.ones((1, packed.embedding_dim), np.float32), np.zeros(0, np.float32)
    calls = [
        (table.model(rank=1), (np.array([0, 17, 3]),)),
        (table.bag_model(), (np.array([0, 17, 3]), np.array([0, 1, 3]), none)),
        (table.logits_model(), (hidden,)),
        (table.topk_model(3), (hidden, none)),
    ]
    for model, inputs in calls:
        session = open_session(model)
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match=message):
            run(session, *inputs)


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"row_scale_codes": np.zeros(49, np.uint8)}, {}, r"got row_scale_codes of shape \[49\].*expected \[50\]"),
        ({"row_scale_codes": np.zeros((50, 1), np.uint8)}, {}, r"got row_scale_codes of shape \[50, 1\]"),
        ({"row_scales": np.zeros(257, np.float32)}, {}, r"row_scales of shape \[257\], .* and \[1 to 256\]"),
        ({"row_scales": np.zeros(0, np.float32)}, {}, r"row_scales of shape \[0\]"),
        ({"row_scales": np.zeros(3, np.float16)}, {}, "got row_scales of type float16, expected float32"),
        ({"row_scale_codes": np.zeros(50, np.int32)}, {}, "got row_scale_codes of type int32, expected uint8"),
        ({}, {"unused_columns": -1}, "got unused_columns=-1, expected 0 to 3"),
        ({}, {"unused_columns": 4}, "got unused_columns=4, expected 0 to 3"),
        ({}, {"unused_columns": None}, "got no integer attribute unused_columns"),
        ({"codes": np.zeros((50, 9), np.uint8)}, {}, "got codes of shape"),
    ],
)
def test_scaled_table_that_disagrees_is_refused_at_load(changed, attributes, message):
    table = Packed(scaled(dpq(n=50, width=4)), **changed)
    with pytest.raises(Exception, match=f"DPQScaledEmbedding: .*{message}"):
        open_session(table.model(**attributes))
