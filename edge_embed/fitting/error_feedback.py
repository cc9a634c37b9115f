"""Codes of rows that keep inner products with all rows: the error of each group of columns is fed to the next groups.

    minimise  d_i H d_i^T  =  |d_i R|^2        d_i = E_i - E'_i        H = R R^T, R upper triangular, [d, d]

    H  =  I + a C d / tr C        C = sum_j v_j E_j^T E_j / sum_j v_j        so  d_i C d_i^T  =  mean_j (E_j d_i^T)^2

v_j is the square root of the frequency of row j, or 1: frequent rows would leave little of the others.
Groups of columns are coded in order. With x = E_i and the decoded columns q of the groups before g, the code of g is

    argmin_k |t_g - V_gk R_gg|^2        t_g = (x R)_g - q R_{<g, g}

A table is used by inner products: of logits, of the next layer, or of two rows. Nearest codes (a = 0) spend the same
on directions that all rows lack. Feedback needs no bytes: formats stay as they are.

Source: Babai, "On Lovasz' lattice reduction and the nearest lattice point problem" (Combinatorica, 1986), the nearest
plane algorithm; Frantar et al., "GPTQ" (ICLR 2023), which has H from the inputs of a layer.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable, moments

# a. A larger one changes models of text a little less and a recommender more: --products of
# tests/benchmarks/error_feedback.py.
_PRODUCTS = 1.0
_BLOCK = 64  # columns: their targets are found together, from all columns before

Quantise = Callable[[int, Tensor], Tensor]


def triangle_of(table: DenseTable, frequencies: Tensor) -> Tensor:
    """Return R, float64 [d, d], of a table and the frequencies of its rows, float64 [n]."""
    second, _, _ = moments(table, frequencies.sqrt())
    size = float(second.trace()) / table.embedding_dim
    metric = torch.eye(table.embedding_dim, dtype=torch.float64)
    if size > 0:
        metric += _PRODUCTS / size * second
    lower: Tensor = torch.linalg.cholesky(metric.flip(0, 1))
    return lower.flip(0, 1)


def quantise(rows: Tensor, triangle: Tensor, width: int, nearest: Quantise) -> None:
    """Quantise rows group by group.

    Args:
        rows: float64 [B, d].
        triangle: R, float64 [d, d].
        width: columns s of a group.
        nearest: called for each group g in order with its number and t_g, float64 [B, s]; it keeps the code and
            returns the decoded columns V_g, float64 [B, s].
    """
    dim = rows.shape[1]
    targets, near = rows @ triangle, torch.zeros_like(rows)  # [B, d]
    step = max(1, _BLOCK // width) * width
    for begin in range(0, dim, step):
        block = slice(begin, min(begin + step, dim))
        targets[:, block] -= near[:, :begin] @ triangle[:begin, block]
        for first in range(begin, block.stop, width):
            own, before = slice(first, first + width), slice(begin, first)
            target = targets[:, own] - near[:, before] @ triangle[before, own]
            near[:, own] = nearest(first // width, target)
