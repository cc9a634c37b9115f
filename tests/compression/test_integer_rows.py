"""Rows of integers are measured as they would be stored."""

import numpy as np
import pytest
import torch

from edge_embed.compression.dense import DenseTable
from edge_embed.compression.integer_rows import integer_rows

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((50, 7)) * 10.0 ** RANDOM.integers(-3, 3, (50, 1))
ROWS[4] = 0


@pytest.mark.parametrize("counts", [None, RANDOM.integers(0, 9, 50)])
def test_they_are_as_near_and_as_large_as_they_would_be(counts: np.ndarray | None) -> None:
    trials = integer_rows(DenseTable(ROWS, 3), 3, None if counts is None else torch.from_numpy(counts))
    weights = np.ones(50) if counts is None else counts.astype(float)
    weights[[3, 4]] = 0  # the padding row; a row of zeros has no cosine
    for trial, largest, row_bytes in zip(trials, (127, 7), (7 + 4, 4 + 4), strict=True):
        scales = np.abs(ROWS).max(1, keepdims=True) / largest
        rows = scales * np.rint(np.divide(ROWS, scales, where=scales > 0, out=np.zeros_like(ROWS)))
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(ROWS, axis=1)
        cosines = (rows * ROWS).sum(1) / np.where(lengths, lengths, 1)
        error = np.sqrt(weights @ np.square(rows - ROWS).sum(1) / (weights @ np.square(ROWS).sum(1)))
        assert trial.nbytes == 50 * row_bytes
        assert trial.mean_cosine == pytest.approx(weights @ cosines / weights.sum(), rel=1e-6)  # scales are float32
        assert trial.relative_error == pytest.approx(error, rel=1e-4)
