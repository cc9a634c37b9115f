"""Nodes of packed tables, without a body, so that a session requires the kernel; what every use of them must give."""

from itertools import pairwise

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from ort_nodes import Table, assert_close, assert_same_bits, make_graph_input, open_session, run, run_all

from edge_embed.packed import PackedTable

from ..exporters.onnx.bodies import node_of


class Packed(Table):
    """A packed table with nodes of one name; some tensors may be changed."""

    def __init__(self, name: str, packed: PackedTable, **changed: np.ndarray) -> None:
        self.name, self.packed, self.changed = name, packed, changed
        self.dtype = packed.rows(0).dtype.type

    def tensors(self) -> dict[str, np.ndarray]:
        return self.packed.tensors() | self.changed

    def attributes(self) -> dict[str, int]:
        node, _, _ = node_of(self.packed, "rows", ["ids"], "rows")
        return {attribute.name: attribute.i for attribute in node.attribute}


def assert_uses_match(table: Packed, offsets: np.ndarray) -> None:
    """Assert that rows, bags with offsets, logits and top-k are those of the packed form."""
    packed, n, random = table.packed, table.packed.num_embeddings, np.random.default_rng(0)
    ids = np.arange(n - 1, -1, -1)
    expected = packed.rows(ids)
    assert_same_bits(run(open_session(table.model(rank=1)), ids), expected)
    given = make_graph_input(table.model(TensorProto.INT32, rank=1))
    (rows,) = open_session(given).run(None, {"ids": ids.astype(np.int32), **table.tensors()})
    assert_same_bits(rows, expected)

    exact, weights = expected.astype(np.float64), random.standard_normal(n).astype(table.dtype)
    none = np.zeros(0, table.dtype)
    for mode, weighted in ((0, 0), (0, 1), (1, 0), (2, 0)):
        got = run(open_session(table.bag_model(mode, weighted)), ids, offsets, weights if weighted else none)
        terms = exact * (weights.astype(np.float64)[:, None] if weighted else 1)
        keep = ids != (-1 if packed.padding_idx is None else packed.padding_idx)
        for bag, (first, last) in enumerate(pairwise(offsets)):
            some = terms[first:last][keep[first:last]]
            reduce = (np.sum, np.mean, np.max)[mode] if len(some) else np.sum
            sums = np.abs(some).sum(0) / (len(some) if mode == 1 and len(some) else 1)
            assert_close(got[bag], table.dtype, reduce(some, axis=0), sums)

    for kind in (np.float32, np.float16):
        hidden = random.standard_normal((3, packed.embedding_dim)).astype(kind)
        rows = packed.rows_float64(np.arange(n))
        terms = np.abs(hidden.astype(np.float64)) @ np.abs(rows).T
        logits = run(open_session(table.logits_model(kind)), hidden)
        assert_close(logits, kind, hidden.astype(np.float64) @ rows.T, terms)
        best, top = run_all(open_session(table.topk_model(7, dtype=kind)), hidden, np.zeros(0, kind))
        order = np.argsort(-logits.astype(np.float64), axis=1, kind="stable")[:, :7]
        assert_same_bits(top, order)
        assert_same_bits(best, np.take_along_axis(logits, order, 1))


def assert_row_is_refused(table: Packed, row: int, reason: str) -> None:
    """Assert that each use of a damaged row raises an error that names the row."""
    message = f"row {row} of the table cannot be read, {reason}"
    hidden, none = np.ones((1, table.packed.embedding_dim), np.float32), np.zeros(0, np.float32)
    ids = np.array([0, row, 3])
    calls = [
        (table.model(rank=1), (ids,)),
        (table.bag_model(), (ids, np.array([0, 1, 3]), none)),
        (table.logits_model(), (hidden,)),
        (table.topk_model(3), (hidden, none)),
    ]
    for model, inputs in calls:
        session = open_session(model)
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match=message):
            run(session, *inputs)
