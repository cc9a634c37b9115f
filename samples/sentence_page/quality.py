"""Quality of a compressed table: sentence vectors beside those of the dense table, and simple tables of equal bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Rows = NDArray[np.float32]
_PAIRED = 300  # sentences whose pairs are compared
_CLIPS = np.linspace(0.2, 1.0, 17)


@dataclass(frozen=True)
class Quality:
    """Agreement with the dense table.

    Attributes:
        name: name of the table.
        bytes: bytes of the table.
        cosine: mean cosine of sentence vectors.
        rank_correlation: Spearman's, of the cosines of all pairs of sentences.
    """

    name: str
    bytes: int
    cosine: float
    rank_correlation: float


def encode(rows: Rows, ids: Sequence[Sequence[int]]) -> Rows:
    """Return the mean row of each sentence, scaled to length 1; zeros without ids. [sentences, columns]."""
    means = np.stack([rows[list(each)].mean(0) if len(each) else np.zeros(rows.shape[1], np.float32) for each in ids])
    vectors: Rows = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-32)
    return vectors


def measure(name: str, size: int, rows: Rows, dense: Rows, ids: Sequence[Sequence[int]]) -> Quality:
    """Compare the sentence vectors of two tables; missing columns count as zeros."""
    padded = np.pad(rows, ((0, 0), (0, dense.shape[1] - rows.shape[1])))
    one, other = encode(padded, ids), encode(dense, ids)
    pairs = np.triu_indices(min(_PAIRED, len(ids)), 1)
    alike = [(each[:_PAIRED] @ each[:_PAIRED].T)[pairs] for each in (one, other)]
    return Quality(name, size, float((one * other).sum(1).mean()), float(stats.spearmanr(*alike).statistic))


def simple_tables(dense: Rows, most_bytes: int) -> dict[str, tuple[Rows, int]]:
    """Return tables of as many leading columns as fit into the bytes, in integers with a scale for each column.

    Columns are principal components, so the leading ones hold most of the rows.
    """
    found = {}
    for bits in (8, 4, 2):
        columns = min(dense.shape[1], most_bytes * 8 // (len(dense) * bits + 32))
        name = f"int{bits}, {columns} of {dense.shape[1]} columns"
        found[name] = rounded(dense[:, :columns], bits), len(dense) * columns * bits // 8 + columns * 4
    return found


def rounded(rows: Rows, bits: int) -> Rows:
    """Return rows in integers of some bits, with the scale of each column that has the least squared error."""
    levels = (2**bits - 1) / 2  # symmetric about zero, without a zero of its own: better for few bits
    largest = np.abs(rows).max(0)
    best, least = rows, np.full(rows.shape[1], np.inf)
    for clip in _CLIPS:
        scale = np.maximum(largest * clip / levels, 1e-12)
        numbers = (np.clip(np.floor(rows / scale), -levels - 0.5, levels - 0.5) + 0.5) * scale
        errors = ((rows - numbers) ** 2).sum(0)
        best, least = np.where(errors < least, numbers, best), np.minimum(errors, least)
    return best.astype(np.float32)
