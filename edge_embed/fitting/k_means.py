"""Weighted k-means, whose two steps are those that train DPQ-VQ (`edge_embed.ops.dpq_kernels`).

    c_i = argmax_k x_i V_k - |V_k|^2 / 2  =  argmin_k |x_i - V_k|^2
    V_k = sum_{i: c_i = k} w_i x_i / sum_{i: c_i = k} w_i

Source: Lloyd, "Least squares quantization in PCM" (IEEE Transactions on Information Theory, 1982). Centroids move 1.8
times as far as to these means, except in the last two iterations. Of several runs the best is used. They begin at
random points. The first run of numbers (s = 1) begins with the best density of many centroids: the cube root of that of
the points, by Panter and Dite, "Quantization distortion in pulse-count modulation" (Proceedings of the IRE, 1951).
A run ends early where no point changes its centroid any more. A centroid without points moves beside that of the
heaviest points, which it shares with it.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.ops import dpq_kernels, training_library

# With random points of 1 to 32 columns and K = 16 to 256, the error after 25 iterations is 0.98 to 1.02 times that
# after 50 with steps of 1, over three seeds (one column with wide tails: 1.06); after 50 it is 0.95 to 0.99 (0.71).
_STEP, _LAST = 1.8, 2
_BINS = 1 << 10  # of a histogram of points of one column
_SPLIT = 2.0**-10  # relative distance of two centroids that share points
_PRODUCTS = 1 << 22  # of points and centroids that are in memory at a time without a kernel


class Centroids(NamedTuple):
    """Centroids float32 [K, s], and their weighted squared error."""

    value: Tensor
    error: float


def k_means(
    points: Tensor, weights: Tensor, num_codes: int, iterations: int, runs: int, random: np.random.Generator
) -> Tensor:
    """Return centroids float32 [K, s] of points float32 [m, s], m > K, with positive weights, float64 [m].

    Points near the origin lose least by rounding: subtract their mean first.
    """
    found = []
    for run in range(runs):
        if run == 0 and points.shape[1] == 1:
            first = _of_density(points, weights, num_codes)
        else:
            first = points[torch.from_numpy(random.choice(len(points), num_codes, replace=False))]
        found.append(improved(points, weights, first, iterations))
    return min(found, key=lambda each: each.error).value


def _of_density(points: Tensor, weights: Tensor, num_codes: int) -> Tensor:
    """Return numbers [K, 1] whose density is the cube root of that of points [m, 1], the best one for large K."""
    mass, edges = torch.histogram(points.double().flatten(), _BINS, weight=weights)
    share = functional.pad(mass.pow(1 / 3).cumsum(0), (1, 0))
    middles = (torch.arange(num_codes) + 0.5) / num_codes * share[-1]
    found = np.interp(middles.numpy(), share.numpy(), edges.numpy())
    return torch.from_numpy(found).float().unsqueeze(1)


def improved(points: Tensor, weights: Tensor, value: Tensor, iterations: int) -> Centroids:
    """Return centroids after some iterations from others, float32 [K, s]; arguments as of `k_means`."""
    before, last = None, iterations - _LAST
    for number in range(iterations):
        codes, step = _nearest(points, value), _STEP if number < last else 1
        if before is not None and torch.equal(codes, before):
            if number > last:
                break
            step, last = 1, number
        value, before = value + step * (_means(points, weights, codes, value) - value), codes
    near = value[_nearest(points, value).long()]
    error = (points - near).double().square_().sum(1) @ weights
    return Centroids(value, float(error))


def _nearest(points: Tensor, value: Tensor) -> Tensor:
    """Return the number of the nearest centroid of each point, [m]."""
    offsets = value.double().square().sum(1).mul(-0.5).float()  # [K]
    affine = torch.cat((value.T, offsets.unsqueeze(0)))  # [s + 1, K]
    if training_library.serves(points, affine):
        return dpq_kernels.nearest(dpq_kernels.distances(points, affine.unsqueeze(0), "dot"))[0]
    parts = points.split(max(1, _PRODUCTS // len(value)))
    return torch.cat([torch.addmm(offsets, part, value.T).argmax(1) for part in parts])


def _means(points: Tensor, weights: Tensor, codes: Tensor, value: Tensor) -> Tensor:
    """Return the weighted mean of the points of each centroid, float32 [K, s]."""
    totals = torch.bincount(codes, weights, len(value))  # float64 [K]
    means = value - _excess(points, weights, codes, value) / totals.unsqueeze(1)
    for empty in (totals == 0).nonzero().flatten().tolist():
        heaviest = int(totals.argmax())
        totals[heaviest] /= 2
        totals[empty] = totals[heaviest]
        means[empty] = means[heaviest] * (1 + _SPLIT)
        means[heaviest] *= 1 - _SPLIT
    return means.float()


def _excess(points: Tensor, weights: Tensor, codes: Tensor, value: Tensor) -> Tensor:
    """Return sum_i w_i (V_k - x_i) over the points of each centroid, float64 [K, s]."""
    if training_library.serves(points, value):
        shares = (weights / 2).float()
        return dpq_kernels.centroid_backward(points, value.unsqueeze(0), codes.unsqueeze(0), shares)[0].double()
    differences = (value[codes.long()] - points).double().mul_(weights.unsqueeze(1))
    return torch.zeros_like(value, dtype=torch.float64).index_add_(0, codes.int(), differences)
