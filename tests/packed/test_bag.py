"""Bags against a loop over the ids of each, and against torch's own EmbeddingBag."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.packed import PackedANT, PackedDPQ, PackedTable, PackedTT
from edge_embed.packed.bag import bag

N, DIM = 12, 4


def table(method: str, padding: int | None = 2) -> PackedTable:
    rng = np.random.default_rng(1)
    if method == "dpq":
        values = rng.standard_normal((2, 3, 2), np.float32)
        return PackedDPQ.from_codes(rng.integers(0, 3, (N, 2)), values, padding)
    if method == "ant":
        transform = np.maximum(rng.standard_normal((N, 5)), 0)
        return PackedANT.from_dense(transform, rng.standard_normal((5, DIM), np.float32), padding)
    cores = (rng.standard_normal((3, 1, 2, 2), np.float32), rng.standard_normal((4, 2, 2, 1), np.float32))
    return PackedTT(cores, N, padding)


@st.composite
def bags(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    lists = draw(st.lists(st.lists(st.integers(0, N - 1), max_size=5), max_size=6))
    ids = np.array([i for one in lists for i in one], draw(st.sampled_from(["i4", "i8", "u1"])))
    return ids, np.cumsum([0, *map(len, lists)])


def slow_bag(table: PackedTable, ids: Any, weights: Any, mode: str) -> tuple[Any, Any]:
    """Return one bag, computed one id at a time."""
    terms, sizes = [], []
    for row_id, weight in zip(ids.tolist(), weights.tolist(), strict=True):
        if row_id != table.padding_idx:
            terms.append(table.rows_float64(row_id) * weight)
            sizes.append(table.magnitudes(row_id) * abs(weight))
    if not terms:
        return np.zeros(DIM), np.zeros(DIM)
    if mode == "max":
        return np.max(terms, axis=0), np.max(sizes, axis=0)
    count = len(terms) if mode == "mean" else 1
    return sum(terms) / count, sum(sizes) / count


@pytest.mark.parametrize("method", ["dpq", "ant", "tt"])
@given(called=bags(), mode=st.sampled_from(["sum", "mean", "max", "weighted"]), padding=st.sampled_from([None, 2]))
def test_bags_equal_loop_over_ids(method: str, called: Any, mode: str, padding: int | None) -> None:
    (ids, offsets), packed = called, table(method, padding)
    weights = np.random.default_rng(0).standard_normal(len(ids)).astype(np.float32) if mode == "weighted" else None
    mode = "sum" if mode == "weighted" else mode
    values, magnitudes = bag(packed, ids, offsets, mode, weights)
    assert values.shape == magnitudes.shape == (len(offsets) - 1, DIM)
    assert values.dtype == magnitudes.dtype == np.float64
    factors = np.ones(len(ids)) if weights is None else weights
    for index, (start, stop) in enumerate(itertools.pairwise(offsets)):
        expected, sizes = slow_bag(packed, ids[start:stop], factors[start:stop], mode)
        np.testing.assert_allclose(values[index], expected, rtol=0, atol=1e-14 * (1 + sizes.max()))
        np.testing.assert_allclose(magnitudes[index], sizes, rtol=1e-13)
        assert (np.abs(values[index]) <= magnitudes[index] * (1 + 1e-13)).all()


@pytest.mark.parametrize("padding", [None, 2])
@given(called=bags(), mode=st.sampled_from(["sum", "mean", "max"]), weighted=st.booleans())
def test_bags_equal_those_of_torch(called: Any, mode: str, weighted: bool, padding: int | None) -> None:
    ids, offsets = called
    packed = table("dpq", padding)
    weights = torch.randn(len(ids), dtype=torch.float64) if weighted and mode == "sum" else None
    expected = functional.embedding_bag(
        torch.from_numpy(ids.astype(np.int64)),
        torch.from_numpy(packed.rows_float64(np.arange(N))),
        torch.from_numpy(offsets),
        mode=mode,
        per_sample_weights=weights,
        include_last_offset=True,
        padding_idx=padding,
    )
    values, _ = bag(packed, ids, offsets, mode, None if weights is None else weights.numpy())
    np.testing.assert_allclose(values, expected.numpy(), rtol=0, atol=1e-14 * (1 + np.abs(values).max(initial=0)))


def test_blocks_of_bags_join_without_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    ids, packed = rng.integers(0, N, 300), table("ant")
    offsets = np.sort(np.concatenate([[0, 300], rng.integers(0, 300, 60)]))
    whole = bag(packed, ids, offsets, "mean")
    monkeypatch.setattr("edge_embed.packed.bag.BLOCK_NUMBERS", 7 * DIM)  # seven ids; most bags have fewer
    for got, expected in zip(bag(packed, ids, offsets, "mean"), whole, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_empty_bags_and_no_bags_give_zeros_and_no_rows() -> None:
    none = np.zeros(0, np.int64)
    assert bag(table("tt"), none, [0], "sum")[0].shape == (0, DIM)
    for mode in ("sum", "mean", "max"):
        values, magnitudes = bag(table("tt"), none, [0, 0, 0], mode)
        assert values.tobytes() == magnitudes.tobytes() == bytes(2 * DIM * 8)
        values, _ = bag(table("tt"), np.array([2, 2, 3]), [0, 2, 3], mode)  # a bag of padding, then one row
        np.testing.assert_array_equal(values, [[0] * DIM, table("tt").rows_float64(3)])


@pytest.mark.parametrize(
    ("ids", "offsets", "mode", "weights", "message"),
    [
        ([1, 2], [0, 1], "sum", None, "offsets: got 0 as the first and 1 as the last, expected 0 and 2, the number of"),
        ([1, 2], [1, 2], "sum", None, "offsets: got 1 as the first and 2 as the last"),
        ([1, 2], [0, 3], "sum", None, "offsets: got 0 as the first and 3 as the last"),
        ([1, 2], [0, 2, 1, 2], "sum", None, "offsets: got 1 after 2 at position 2, expected offsets that do not"),
        ([1, 2], [0, -1, 2], "sum", None, "offsets: got -1 after 0 at position 1"),
        ([1, 2], [], "sum", None, r"offsets: got float64 \[0\], expected integers \[bags \+ 1\]"),
        ([1, 2], [[0, 2]], "sum", None, r"offsets: got int64 \[1, 2\]"),
        ([1, 2], [0.0, 2.0], "sum", None, "offsets: got float64"),
        ([[1, 2]], [0, 2], "sum", None, r"ids: got shape \[1, 2\], expected \[N\]"),
        ([1.0, 2.0], [0, 2], "sum", None, "ids: got dtype float64"),
        ([1, 2], [0, 2], "median", None, "mode: got 'median', did you mean 'mean'\\? expected one of sum, mean, max"),
        ([1, 2], [0, 2], "mean", [1.0, 1.0], "sample_weights: got weights for mode 'mean', expected none"),
        ([1, 2], [0, 2], "sum", [1.0], r"sample_weights: got float64 \[1\], expected floats \[2\], one for each id"),
        ([1, 2], [0, 2], "sum", [1, 1], r"sample_weights: got int64 \[2\]"),
    ],
)
def test_invalid_bags_are_refused(ids: Any, offsets: Any, mode: str, weights: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        bag(table("dpq"), ids, offsets, mode, weights)


def test_ids_out_of_range_are_refused_even_with_weight_zero() -> None:
    with pytest.raises(IdOutOfRangeError, match="got id 12 at position 1, expected 0 to 11"):
        bag(table("dpq"), [1, 12], [0, 2], "sum", [1.0, 0.0])
