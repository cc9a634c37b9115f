"""Codes of the rows of a dense table: the centroids that `DPQEmbedding` takes as nearest.

    argmin_k |x - V_k|^2  =  argmax_k (x V_k - |V_k|^2 / 2)

The layer's rule sums up in float64 (`edge_embed.ops.dpq_distance`). Here products are float32, which is
faster; where others are so near to the largest that rounding may have changed their order, the rule decides.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.compression.dense import DenseTable
from edge_embed.compression.kept import Kept
from edge_embed.compression.processes import Arrays
from edge_embed.ops.dpq_distance import codes as codes_by_rule
from edge_embed.packed import bits as bit_packing

# Measured. A part is large enough for the calls of torch, about 10 microseconds for each group, to count little. torch
# reduces 64 columns at a time, and rows that are a power of two apart fall out of the cache: for K = 256 the search
# would take twice as long.
_PART_PRODUCTS = 1 << 18
_MOST_ROWS = 4096
_COLUMNS = 64
_ROUNDING = 2.0**-24
_TINY = 2.0**-126  # the least float32 with all its digits

Codes = NDArray[np.uint8 | np.uint16]


def packed_codes(
    table: DenseTable, scale: float, value: Tensor, num_groups: int, kept: Kept, on_block: Callable[[int], None]
) -> NDArray[np.uint8]:
    """Codes of all rows, uint8 [n, row_bytes].

    Args:
        table: rows [n, d].
        scale: a power of two that rows are multiplied by.
        value: centroids float32 [D, K, s], or [1, K, s] for all groups, of rows times ``scale``.
        num_groups: D.
        kept: finished blocks.
        on_block: called with the number of finished rows after each block.
    """
    bits = bit_packing.bits_for(value.shape[1])
    packed = np.empty((table.num_embeddings, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    search = _Search(value, num_groups)
    threads = torch.get_num_threads()

    def pack_rows(ids: Sequence[int]) -> Arrays:
        codes = np.empty((len(ids), num_groups), bit_packing.code_type(bits))
        step = _rows_at_a_time(value.shape[1], len(ids) // threads)
        parts = [slice(begin, begin + step) for begin in range(0, len(ids), step)]

        def find(part: slice) -> _Unsure:
            place = ids[part]
            rows = (table.block(slice(place[0], place[-1] + 1)) * scale).float()
            return search.find(rows, part.start, codes[part])

        unsure = _Unsure(*map(torch.cat, zip(*pool.map(find, parts), strict=True)))
        list(pool.map(lambda group: search.decide(group, unsure, codes, step), range(num_groups)))
        return {"codes": np.concatenate(list(pool.map(lambda part: _packed(codes[part], bits), parts)))}

    def pack_block(place: slice) -> Arrays:
        return table.processes.joined(range(place.start, place.stop), pack_rows)

    # Each part on one thread: torch's own wait for each other after every small step.
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with pool, _float32_products():
        for place in table.places(table.num_embeddings):
            packed[place] = kept(f"codes {place.start}", partial(pack_block, place))["codes"]
            on_block(place.stop)
    return packed


def _packed(codes: Codes, bits: int) -> NDArray[np.uint8]:
    """Rows of codes [Q, D], packed. Codes of a byte are so already; to pack them would take 5 % of the search."""
    return codes.astype(np.uint8, copy=False) if bits == 8 else bit_packing.pack(codes, bits)


def _rows_at_a_time(num_codes: int, most: int) -> int:
    """Rows of a part, so that there is one for each thread if each has ``most``: an odd number of times 64."""
    rows = min(_MOST_ROWS, _PART_PRODUCTS // num_codes, most)
    return (max(1, rows // _COLUMNS) - 1 | 1) * _COLUMNS


@contextmanager
def _float32_products() -> Iterator[None]:
    """No oneDNN, which multiplies in bfloat16 where a user allows it (``torch.set_float32_matmul_precision``)."""
    before = torch.backends.mkldnn.set_flags(False, _fp32_precision=None)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before[0], _fp32_precision=None)


class _Unsure(NamedTuple):
    """U sub-vectors whose nearest centroid is left open by products in float32."""

    groups: Tensor  # int64 [U]
    rows: Tensor  # int64 [U]
    points: Tensor  # float32 [U, s]


class _Search:
    """Looks for the nearest among centroids float32 [D, K, s], or [1, K, s] for all D groups."""

    def __init__(self, value: Tensor, num_groups: int) -> None:
        self._value, self._num_groups = value, num_groups
        lengths = value.double().square().sum(-1, keepdim=True)  # [G, K, 1]
        self._weights = torch.cat((value, (-0.5 * lengths).float()), -1).unbind()  # [K, s + 1] each
        self._longest = lengths.amax(1).sqrt().float()  # [G, 1]
        num_codes = value.shape[1]
        self._marks = torch.arange(num_codes, 2 * num_codes, dtype=torch.float32).unsqueeze(0)  # [1, K]

    def find(self, rows: Tensor, begin: int, out: Codes) -> _Unsure:
        """Write codes to ``out`` [B, D], but for some, which `decide` finds.

        Args:
            rows: float32 [B, d].
            begin: the number of the first one.
            out: where they go.
        """
        _, num_codes, width = self._value.shape
        features = torch.ones(self._num_groups, width + 1, len(rows))
        points = features[:, :width].copy_(rows.t().unflatten(0, (self._num_groups, width)))
        doubts = self._doubts(points)
        marked = torch.empty(self._num_groups, 1, len(rows))
        # One room for all groups: a new megabyte for each takes as long as the products.
        products = torch.empty(num_codes, len(rows))
        weights = self._weights * (self._num_groups // len(self._weights))
        for weight, *of_group in zip(weights, features.unbind(), doubts.unbind(), marked.unbind(), strict=True):
            torch.mm(weight, of_group[0], out=products)
            self._mark(products, *of_group[1:])
        codes = marked.squeeze(1).clamp_(max=2 * num_codes).sub_(num_codes).int().numpy()  # [D, B]
        out[:] = codes.T
        unsure = np.flatnonzero(codes.view(np.uint32) >= num_codes)  # those below 0 too
        groups, ids = map(torch.from_numpy, np.unravel_index(unsure, codes.shape))
        return _Unsure(groups, ids + begin, points[groups, :, ids])

    def _mark(self, products: Tensor, doubts: Tensor, out: Tensor) -> None:
        """Write K + k to ``out`` [1, B] where centroid k alone may have the largest product.

        It is the sum of K + k over all that may: of two of them it is at least 2 K, and of none, where products are NaN
        or infinite, 0. In torch a row for each centroid, and a matrix product to find the marks, take the least time.

        Args:
            products: [K, B], written over.
            doubts: [B].
            out: float32 [1, B].
        """
        torch.ge(products, products.amax(0).sub_(doubts), out=products)
        torch.mm(self._marks, products, out=out)

    def _doubts(self, points: Tensor) -> Tensor:
        """How far two products of points [D, s, B] can differ and yet be in the wrong order, [D, B].

        L = |x| + |V|, with the longest V; u is a rounding. Each is a sum of s + 1 products, off by (s + 2) u L^2 / 2 at
        most. The rule takes as equal what the rounding of two distances makes so, u L^2 of products. The limit itself
        is off by u L^2 / 2, and the rest is for this bound. Near the least float32, roundings are 2^-150 each.
        """
        lengths = points.square().sum(1).sqrt_().add_(self._longest)
        return lengths.square_().mul_((points.shape[1] + 6) * _ROUNDING).add_(_TINY)

    def decide(self, group: int, unsure: _Unsure, codes: Codes, step: int) -> None:
        """Write those codes of a group by the rule to [Q, D], ``step`` at a time."""
        these = unsure.groups == group
        key = self._value[group % len(self._value)].unsqueeze(0)
        for points, rows in zip(unsure.points[these].split(step), unsure.rows[these].split(step), strict=True):
            if len(rows):
                codes[rows.numpy(), group] = codes_by_rule(points, key, None, None, "euclidean")[:, 0].numpy()
