"""Codes of the rows of a dense table: the centroids that keep its inner products (`edge_embed.fitting.error_feedback`).

    argmin_k |x - V_k|^2  =  argmax_k (x V_k - |V_k|^2 / 2)

The rule of `DPQEmbedding` sums in float64 (`edge_embed.ops.dpq_distance`). The kernel here sums in float32
(`edge_embed.ops.dpq_kernels`), which is faster. The rule decides if the two largest values are so close that rounding
may have changed their order, and it decides everything without a kernel.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting import error_feedback
from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.processes import Arrays
from edge_embed.ops import dpq_kernels, training_library
from edge_embed.ops.dpq_distance import codes as codes_by_rule
from edge_embed.packed import bits as bit_packing

# Size of a part: large enough that threads rarely wait for each other in Python between kernels.
_PART_NUMBERS = 1 << 19
_RULE_DISTANCES = 1 << 18  # maximum in memory at a time for the rule
_ROUNDING = 2.0**-24
_TINY = 2.0**-126  # smallest normal float32

Codes = NDArray[np.uint8 | np.uint16]


def packed_codes(
    table: DenseTable,
    scale: float,
    value: Tensor,
    num_groups: int,
    triangle: Tensor,
    kept: Kept,
    on_block: Callable[[int], None],
) -> NDArray[np.uint8]:
    """Return the packed codes of all rows, uint8 [n, row_bytes].

    Args:
        table: rows [n, d].
        scale: power of two that rows are multiplied by.
        value: centroids float32 [D, K, s], or [1, K, s] for all groups, of rows times ``scale``.
        num_groups: number of groups D.
        triangle: R of `error_feedback`, float64 [d, d]; the unit matrix for the nearest centroids.
        kept: store of finished blocks.
        on_block: called with the number of finished rows after each block.
    """
    bits = bit_packing.bits_for(value.shape[1])
    packed = np.empty((table.num_embeddings, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    search = _Search(value.double().expand(num_groups, -1, -1), triangle)
    threads = torch.get_num_threads()

    def pack_rows(ids: Sequence[int]) -> Arrays:
        step = max(1, min(_PART_NUMBERS // table.embedding_dim, -(-len(ids) // threads)))

        def pack_part(begin: int) -> NDArray[np.uint8]:
            part = ids[begin : begin + step]
            rows = table.block(slice(part[0], part[-1] + 1)).mul_(scale)
            return _packed(search.codes(rows, bit_packing.code_type(bits)), bits)

        return {"codes": np.concatenate(list(pool.map(pack_part, range(0, len(ids), step))))}

    def pack_block(place: slice) -> Arrays:
        return table.processes.joined(range(place.start, place.stop), pack_rows)

    # Each part uses one thread, also in the kernel: torch's own threads wait for each other after every small step.
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with pool:
        for place in table.places(table.num_embeddings):
            packed[place] = kept(f"codes {place.start}", partial(pack_block, place))["codes"]
            on_block(place.stop)
    return packed


def _packed(codes: Codes, bits: int) -> NDArray[np.uint8]:
    """Pack rows of codes [Q, D]. Byte codes are packed already; packing them again would take 5 % of the search."""
    return codes.astype(np.uint8, copy=False) if bits == 8 else bit_packing.pack(codes, bits)


class _Search:
    """Search among centroids V, float64 [D, K, s], with feedback by a matrix R, float64 [d, d]."""

    def __init__(self, value: Tensor, triangle: Tensor) -> None:
        num_groups, _, width = value.shape
        self._value, self._triangle = value, triangle
        own = [slice(group * width, (group + 1) * width) for group in range(num_groups)]
        self._keys = (value @ torch.stack([triangle[place, place] for place in own])).float()  # V_g R_gg, [D, K, s]
        lengths = self._keys.double().square().sum(-1, keepdim=True)  # [D, K, 1]
        affine = torch.cat((self._keys, (-0.5 * lengths).float()), -1)
        self._weights = affine.transpose(1, 2).contiguous()  # [D, s + 1, K]
        self._longest = lengths.amax(1).sqrt().float()  # [D, 1]

    def codes(self, rows: Tensor, dtype: type[np.uint8 | np.uint16]) -> Codes:
        """Return the codes [B, D] of rows, float64 [B, d]."""
        found = np.empty((len(rows), len(self._keys)), dtype)

        def nearest(group: int, target: Tensor) -> Tensor:
            codes = self._nearest(group, target.float()).int()
            found[:, group] = codes.numpy()
            return self._value[group].index_select(0, codes)

        error_feedback.quantise(rows, self._triangle, self._keys.shape[2], nearest)
        return found

    def _nearest(self, group: int, points: Tensor) -> Tensor:
        """Return the number of the nearest key of each point, float32 [B, s] -> integers [B]."""
        weights = self._weights[group : group + 1]
        if not training_library.serves(points, weights):
            return self._by_rule(group, points)
        codes, leads = dpq_kernels.nearest_and_leads(dpq_kernels.distances(points, weights, "dot"))  # [1, B] each
        is_sure = leads[0] > self._doubts(torch.linalg.vector_norm(points, dim=1), self._longest[group])
        unsure = is_sure.logical_not_().nonzero().flatten()  # a NaN lead is one of them
        if len(unsure):
            codes[0, unsure] = self._by_rule(group, points[unsure]).to(codes.dtype)
        return codes[0]

    def _doubts(self, lengths: Tensor, longest: Tensor) -> Tensor:
        """Return the largest difference of two sums for x that rounding may have put in the wrong order.

        L = |x| + |V| with the longest V, and u is the unit roundoff. A sum adds s products and -|V|^2 / 2 in order,
        with or without fused rounding. Its error is at most (s + 1) u L^2 / 2: each term is rounded at most s + 1
        times, and |x V| + |V|^2 / 2 <= L^2 / 2. The rule treats distances as equal if they round to the same float32,
        which adds u L^2. This gives (s + 2) u L^2 for two sums; the remaining 4 u L^2 cover the lead, this bound and
        squares of u. Near the smallest float32, each rounding is 2^-150. If a sum is not finite, L^2 is not finite
        either.

        Args:
            lengths: |x|, float32 [B].
            longest: |V|, float32 [1].
        """
        return (lengths + longest).square_().mul_((self._keys.shape[2] + 6) * _ROUNDING).add_(_TINY)

    def _by_rule(self, group: int, points: Tensor) -> Tensor:
        """Return the codes of points, float32 [B, s], that the rule of the layer gives."""
        key = self._keys[group].unsqueeze(0)
        step = max(1, _RULE_DISTANCES // key.shape[1])
        parts = points.split(step)
        return torch.cat([codes_by_rule(part, key, None, None, "euclidean")[:, 0] for part in parts])
