"""Codes of the rows of a dense table: the centroids that `DPQEmbedding` takes as nearest.

    argmin_k |x - V_k|^2  =  argmax_k (x V_k - |V_k|^2 / 2)

The layer's rule sums up in float64 (`edge_embed.ops.dpq_distance`). Here products are float32, which is
faster; where the two largest are so near that rounding may have changed their order, the rule decides.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.compression.dense import DenseTable
from edge_embed.compression.kept import Kept
from edge_embed.compression.processes import Arrays
from edge_embed.ops.dpq_distance import codes as codes_by_rule
from edge_embed.packed import bits as bit_packing

_BLOCK_BYTES = 1 << 20  # of products: smaller blocks cost calls, larger ones cache misses (both measured)
_ROUNDING = 2.0**-24


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
    num_codes = value.shape[1]
    bits = bit_packing.bits_for(num_codes)
    packed = np.empty((table.num_embeddings, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    tables = [_Centroids(each) for each in value] * (num_groups // len(value))
    step = max(1, _BLOCK_BYTES // (4 * num_codes))

    def pack(rows: Tensor, out: NDArray[np.uint8]) -> None:
        groups = rows.unflatten(1, (num_groups, -1)).numpy()
        products = torch.empty(
            len(rows), num_codes
        )  # once: a new megabyte for each group takes as long as the products
        codes = [each.nearest(groups[:, group], products) for group, each in enumerate(tables)]
        out[:] = bit_packing.pack(np.stack(codes, 1), bits)

    def pack_rows(ids: Sequence[int]) -> Arrays:
        place = slice(ids[0], ids[-1] + 1)
        rows, out = (table.block(place) * scale).float(), packed[place]
        parts = [slice(begin, begin + step) for begin in range(0, len(rows), step)]
        list(pool.map(pack, [rows[part] for part in parts], [out[part] for part in parts]))
        return {"codes": out}

    def pack_block(place: slice) -> Arrays:
        return table.processes.joined(range(place.start, place.stop), pack_rows)

    # Each part on one thread: torch's own wait for each other after every small step.
    pool = ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,))
    with pool, _float32_products():
        for place in table.places(table.num_embeddings):
            packed[place] = kept(f"codes {place.start}", partial(pack_block, place))["codes"]
            on_block(place.stop)
    return packed


@contextmanager
def _float32_products() -> Iterator[None]:
    """No oneDNN, which multiplies in bfloat16 where a user allows it (``torch.set_float32_matmul_precision``)."""
    before = torch.backends.mkldnn.set_flags(False, _fp32_precision=None)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before[0], _fp32_precision=None)


class _Centroids:
    """One value table, float32 [K, s]."""

    def __init__(self, value: Tensor) -> None:
        self._value = value
        lengths = value.double().square().sum(1, keepdim=True)  # [K, 1]
        self._weights = torch.cat((value, (-0.5 * lengths).float()), 1).t().contiguous()  # [s + 1, K]
        self._longest = float(lengths.max().sqrt())

    def nearest(self, points: NDArray[np.float32], room: Tensor) -> NDArray[np.intp]:
        """Codes [B] of points [B, s]; ``room`` [B, K] is written over."""
        features = np.concatenate((points, np.ones_like(points[:, :1])), 1)
        products = torch.mm(torch.from_numpy(features), self._weights, out=room).numpy()
        codes: NDArray[np.intp] = products.argmax(1)  # numpy's is vectorised
        each = np.arange(len(codes))
        largest = products[each, codes]
        products[each, codes] = -np.inf
        is_sure = largest - products.max(1) > self._doubt(points)
        if not is_sure.all():
            unsure = torch.from_numpy(points[~is_sure])
            codes[~is_sure] = codes_by_rule(unsure, self._value[None], None, None, "euclidean")[:, 0].numpy()
        return codes

    def _doubt(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far two products of points [B, s] can differ and yet be in the wrong order, [B].

        A sum of s + 1 products is off by s + 2 roundings of |x| |V| + |V|^2 / 2, at most; the rule takes as equal what
        differs by a rounding of the distance. Both are less than (|x| + |V|)^2; the rest is for the limit itself.
        """
        lengths = np.sqrt(np.square(points).sum(1)) + np.float32(self._longest)
        doubt: NDArray[np.float32] = np.square(lengths) * np.float32((2 * points.shape[1] + 16) * _ROUNDING)
        return doubt
