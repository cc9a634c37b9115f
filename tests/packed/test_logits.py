"""Logits against dot products, one row at a time."""

from typing import Any

import numpy as np
import pytest

from edge_embed.errors import BadInputError
from edge_embed.packed import PackedANT, PackedDPQ, PackedTable, PackedTT
from edge_embed.packed.logits import logits

N, DIM = 12, 4
RNG = np.random.default_rng(1)
TRANSFORM, ANCHORS = np.maximum(RNG.standard_normal((N, 5)), 0), RNG.standard_normal((5, DIM), np.float32)
CORES = (RNG.standard_normal((3, 1, 2, 2), np.float32), RNG.standard_normal((4, 2, 2, 1), np.float32))
TABLES: dict[str, PackedTable] = {
    "dpq": PackedDPQ.from_codes(RNG.integers(0, 3, (N, 2)), RNG.standard_normal((2, 3, 2), np.float32), 2),
    "ant": PackedANT.from_dense(TRANSFORM, ANCHORS, 2),
    "tt": PackedTT(CORES, N, 2),
}


@pytest.mark.parametrize("method", TABLES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logits_equal_loop_over_rows(
    method: str, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_embed.packed.logits.BLOCK_NUMBERS", 5 * DIM)  # blocks of five rows
    table, hidden = TABLES[method], np.random.default_rng(2).standard_normal((*shape, DIM)).astype(dtype)
    scores, magnitudes = logits(table, hidden)
    assert scores.shape == magnitudes.shape == (*shape, N)
    assert scores.dtype == magnitudes.dtype == np.float64
    for place in np.ndindex(shape):
        for row_id in range(N):
            terms = [float(h) * float(e) for h, e in zip(hidden[place], table.rows_float64(row_id), strict=True)]
            sizes = [abs(float(h)) * float(m) for h, m in zip(hidden[place], table.magnitudes(row_id), strict=True)]
            assert abs(scores[place][row_id] - sum(terms)) <= 1e-14 * sum(sizes)
            assert magnitudes[place][row_id] == pytest.approx(sum(sizes), rel=1e-13)
    assert not scores[..., 2].any()  # the padding row


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (np.ones(5), r"hidden: got float64 \[5\], expected floats \[..., 4\]"),
        (np.ones((2, 4), int), r"hidden: got int64 \[2, 4\]"),
        (1.0, r"hidden: got float64 \[\]"),
        (np.ones((4, 3)), r"hidden: got float64 \[4, 3\]"),
    ],
)
def test_invalid_hidden_states_are_refused(hidden: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        logits(TABLES["dpq"], hidden)
