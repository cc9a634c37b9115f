"""Rotation of a table's rows that minimises the loss of product quantisation for normally distributed rows.

    E_i = P_i R     rows of R [d, d]: eigenvectors of sum_i w_i (E_i - m)^T (E_i - m)     m = sum_i w_i E_i / sum_i w_i

Columns of P are uncorrelated. They are assigned to groups by descending variance. Each goes to the group, among those
with room, whose variances have the smallest product so far: groups of equal products lose least.

Source: Ge, He, Ke and Sun, "Optimized Product Quantization" (IEEE TPAMI 2014), the parametric solution. Their
non-parametric solution, which faiss has, takes rounds of k-means and reached no lower error
(`tests/fitting/test_opq.py`).
"""

import torch
from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable, moments

_SMALLEST = 1e-9  # relative to the largest variance: smaller ones do not matter for the assignment


def find_rotation(table: DenseTable, weights: Tensor, num_groups: int) -> Tensor:
    """Return R, which is orthogonal.

    Args:
        table: rows [n, d].
        weights: w_i, weight of each row, float64 [n].
        num_groups: D, which divides d; group j has the columns j s ... (j + 1) s of P, s = d / D.

    Returns:
        float32 [d, d].
    """
    energy, total, count = moments(table, weights)
    mean = total / count.clamp(min=1)  # the largest weight is 1; a table of only a padding row has none
    variances, vectors = torch.linalg.eigh(energy - torch.outer(total, mean))
    variances, vectors = variances.flip(0), vectors.flip(1)  # the largest first, [d] and [d, d]
    if not variances[0] > 0:  # all rows are equal
        return torch.eye(table.embedding_dim)
    sizes = variances.clamp(min=_SMALLEST * float(variances[0])).log()
    rotation: Tensor = vectors[:, _in_groups(sizes - sizes[-1], num_groups)].T.float().contiguous()
    return rotation


def _in_groups(sizes: Tensor, num_groups: int) -> list[int]:
    """Return the columns in the order of their groups, for descending sizes >= 0 [d]."""
    groups = [list[int]() for _ in range(num_groups)]
    sums = [0.0] * num_groups
    for column, size in enumerate(sizes.tolist()):
        free = (group for group in range(num_groups) if len(groups[group]) < len(sizes) // num_groups)
        chosen = min(free, key=sums.__getitem__)
        groups[chosen].append(column)
        sums[chosen] += size
    return [column for group in groups for column in group]
