"""Top-k logits against a sort of all logits, one state at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.packed import PackedDPQ
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import check_k, topk


def table(n: int, padding_idx: int | None = None) -> PackedDPQ:
    """Return a table with at most four different rows, so that there are ties."""
    random = np.random.default_rng(n)
    codes = random.integers(0, 2, (n, 2))
    return PackedDPQ.from_codes(codes, random.integers(-2, 3, (2, 2, 2)).astype(np.float32), padding_idx)


@given(st.data())
def test_topk_gives_first_of_sorted_rows(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 7, 40]), "n")
    packed = table(n, data.draw(st.sampled_from([None, 0, n - 1]), "padding"))
    k, dtype = data.draw(st.integers(1, n), "k"), data.draw(st.sampled_from(["float16", "float32", "float64"]), "type")
    shape = data.draw(st.sampled_from([(), (3,), (2, 3), (0,), (2, 0)]), "shape")
    random = np.random.default_rng(data.draw(st.integers(0, 9), "seed"))
    hidden = random.integers(-2, 3, (*shape, 4)).astype(dtype)
    bias = random.integers(-1, 2, n).astype(dtype) if data.draw(st.booleans(), "biased") else None
    values, ids = topk(packed, hidden, k, bias)
    assert (values.shape, ids.shape, values.dtype, ids.dtype) == ((*shape, k), (*shape, k), dtype, np.int64)
    scores = logits(packed, hidden)[0] + (0 if bias is None else bias)  # small whole numbers: no type rounds them
    for place in np.ndindex(shape):
        first = sorted(range(n), key=lambda row: (-scores[place][row], row))[:k]
        assert ids[place].tolist() == first
        assert values[place].tolist() == scores[place][first].tolist()


def test_half_precision_logit_is_rounded_before_bias() -> None:
    """float16 has no 2049: with a bias of 0 row 0 is 2048 like row 1, and comes first."""
    values = np.array([[[2049.0], [2048.0]]], np.float32)
    packed = PackedDPQ.from_codes(np.array([[1], [0]]), values)
    got, ids = topk(packed, np.ones(1, np.float16), 2, np.zeros(2, np.float16))
    assert (got.tolist(), ids.tolist()) == ([2048, 2048], [0, 1])
    assert topk(packed, np.ones(1, np.float32), 2)[1].tolist() == [1, 0]


@pytest.mark.parametrize("k", [0, -1, 41, 1001, 2.0, True, None, "3"], ids=str)
def test_invalid_k_is_refused(k: Any) -> None:
    with pytest.raises(BadInputError, match=rf"k: got {k!r}, expected a constant integer from 1 to 40, the rows"):
        topk(table(40), np.ones(4), k)


def test_largest_k_is_1000() -> None:
    check_k(1000, 5000)
    with pytest.raises(BadInputError, match="k: got 1001, expected a constant integer from 1 to 1000, the largest"):
        check_k(1001, 5000)


@pytest.mark.parametrize(
    ("bias", "message"),
    [(np.zeros(3), r"bias: got float64 \[3\], expected float64 \[7\]"), (np.zeros(7, np.float32), "bias: got float32")],
)
def test_invalid_bias_is_refused(bias: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        topk(table(7), np.ones(4), 1, bias)
