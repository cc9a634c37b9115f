"""Codes of the rows of a dense table: the nearest centroids by the rule of `DPQEmbedding`.

    argmin_k |x - V_k|^2  =  argmax_k (x V_k - |V_k|^2 / 2)

The layer's rule sums in float64 (`edge_embed.ops.dpq_distance`). The kernel here sums in float32
(`edge_embed.ops.dpq_kernels`), which is faster. The rule decides if the two largest values are so close that rounding
may have changed their order, and it decides everything without a kernel.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    table: DenseTable, scale: float, value: Tensor, num_groups: int, kept: Kept, on_block: Callable[[int], None]
) -> NDArray[np.uint8]:
    """Return the packed codes of all rows, uint8 [n, row_bytes].

    Args:
        table: rows [n, d].
        scale: power of two that rows are multiplied by.
        value: centroids float32 [D, K, s], or [1, K, s] for all groups, of rows times ``scale``.
        num_groups: number of groups D.
        kept: store of finished blocks.
        on_block: called with the number of finished rows after each block.
    """
    bits = bit_packing.bits_for(value.shape[1])
    packed = np.empty((table.num_embeddings, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    search = _Search(value, num_groups)
    threads = torch.get_num_threads()

    def pack_rows(ids: Sequence[int]) -> Arrays:
        codes = np.empty((len(ids), num_groups), bit_packing.code_type(bits))
        step = max(1, min(_PART_NUMBERS // table.embedding_dim, -(-len(ids) // threads)))
        parts = [slice(begin, begin + step) for begin in range(0, len(ids), step)]

        def find(part: slice) -> _Unsure:
            place = ids[part]
            rows = table.block(slice(place[0], place[-1] + 1)).mul_(scale).float()
            return search.find(rows, part.start, codes[part])

        unsure = _Unsure(*map(torch.cat, zip(*pool.map(find, parts), strict=True)))
        list(pool.map(lambda group: search.decide(group, unsure, codes), range(num_groups)))
        return {"codes": np.concatenate(list(pool.map(lambda part: _packed(codes[part], bits), parts)))}

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


class _Unsure(NamedTuple):
    """U sub-vectors whose nearest centroid float32 sums leave open."""

    groups: Tensor  # int64 [U]
    rows: Tensor  # int64 [U]
    points: Tensor  # float32 [U, s]


class _Search:
    """Search for the nearest among centroids float32 [D, K, s], or [1, K, s] for all D groups."""

    def __init__(self, value: Tensor, num_groups: int) -> None:
        self._value, self._num_groups = value, num_groups
        lengths = value.double().square().sum(-1, keepdim=True)  # [G, K, 1]
        self._weights = torch.cat((value, (-0.5 * lengths).float()), -1).transpose(1, 2).contiguous()  # [G, s + 1, K]
        self._longest = lengths.amax(1).sqrt().float().expand(num_groups, 1)

    def find(self, rows: Tensor, begin: int, out: Codes) -> _Unsure:
        """Write codes to ``out`` [B, D], and return the sub-vectors for which `decide` must find the code.

        Args:
            rows: float32 [B, d].
            begin: number of the first row.
            out: codes of the rows.
        """
        codes, leads = self._codes_and_leads(rows)
        out[:] = codes.numpy().T
        # A sub-vector is at most as long as its row, whose length is cheaper to compute: this settles most of them.
        doubts = self._doubts(torch.linalg.vector_norm(rows, dim=1), self._longest)
        groups, ids = self._left(leads, doubts).nonzero().unbind(1)
        points = rows.unflatten(1, (self._num_groups, -1))[ids, groups]
        doubts = self._doubts(torch.linalg.vector_norm(points, dim=1), self._longest[groups, 0])
        left = self._left(leads[groups, ids], doubts)
        return _Unsure(groups[left], ids[left] + begin, points[left])

    def _codes_and_leads(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return codes [D, B], and the lead of each sum over the next one; the lead is 0 without a kernel."""
        if training_library.serves(rows, self._weights):
            return dpq_kernels.nearest_and_leads(dpq_kernels.distances(rows, self._weights, "dot"))
        none = torch.zeros(self._num_groups, len(rows))
        return none.int(), none

    @staticmethod
    def _left(leads: Tensor, doubts: Tensor) -> Tensor:
        """Return which leads may be caused by rounding; a NaN lead is one of them."""
        return (leads > doubts).logical_not_()

    def _doubts(self, lengths: Tensor, longest: Tensor) -> Tensor:
        """Return the largest difference of two sums for x that rounding may have put in the wrong order.

        L = |x| + |V| with the longest V, and u is the unit roundoff. A sum adds s products and -|V|^2 / 2 in order,
        with or without fused rounding. Its error is at most (s + 1) u L^2 / 2: each term is rounded at most s + 1
        times, and |x V| + |V|^2 / 2 <= L^2 / 2. The rule treats distances as equal if they round to the same float32,
        which adds u L^2. This gives (s + 2) u L^2 for two sums; the remaining 4 u L^2 cover the lead, this bound and
        squares of u. Near the smallest float32, each rounding is 2^-150. If a sum is not finite, L^2 is not finite
        either.

        Args:
            lengths: |x| or an upper bound, float32.
            longest: |V|, in a compatible shape.
        """
        return (lengths + longest).square_().mul_((self._value.shape[2] + 6) * _ROUNDING).add_(_TINY)

    def decide(self, group: int, unsure: _Unsure, codes: Codes) -> None:
        """Write the codes of a group that the rule decides to ``codes`` [Q, D]."""
        these = unsure.groups == group
        key = self._value[group % len(self._value)].unsqueeze(0)
        step = max(1, _RULE_DISTANCES // key.shape[1])
        for points, rows in zip(unsure.points[these].split(step), unsure.rows[these].split(step), strict=True):
            if len(rows):
                codes[rows.numpy(), group] = codes_by_rule(points, key, None, None, "euclidean")[:, 0].numpy()
