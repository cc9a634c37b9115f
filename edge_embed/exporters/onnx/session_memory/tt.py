"""Session memory of TT and TR: products of the last cores, so that a row takes fewer products.

    G_k ... G_N  ->  one core of float32, [min(I_k ... I_N, n), R_{k-1}, J_k ... J_N, R_N]

The layout is that of runtime_ops/kernels/tt/merge.h. The other cores become float32 too if they are float16. The chosen
k fits the limit and has the least work per row. Nothing is merged without a limit, or if no k has less work than the
table itself.
"""

import math
from collections.abc import Iterator, Sequence

from edge_embed.exporters.onnx.session_memory.method import SessionMemory
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.tt_shape import TTShape


def merged_bytes(shape: TTShape, most: int) -> int:
    """Return the bytes of the cores that a session makes with a limit of ``most`` bytes."""
    fitting = [(work, nbytes) for work, nbytes in _mergings(shape) if nbytes <= most]
    return min(fitting, key=lambda merging: merging[0], default=(0, 0))[1]


def _mergings(shape: TTShape) -> Iterator[tuple[int, int]]:
    """Yield work per row and bytes, of every k with less work per row than the table itself."""
    cores = list(zip(shape.row_shape, shape.ranks, shape.col_shape, shape.ranks[1:], strict=False))
    for first in range(len(cores) - 2, 0, -1):
        rows = min(math.prod(shape.row_shape[first:]), shape.num_embeddings)
        last = (rows, shape.ranks[first], math.prod(shape.col_shape[first:]), shape.ranks[-1])
        made = [last, *(cores[:first] if shape.value_type == "float16" else [])]
        work = _row_work([*cores[:first], last])
        if work < _row_work(cores):
            yield work, FLOAT_BYTES["float32"] * sum(map(math.prod, made))


def _row_work(cores: Sequence[tuple[int, int, int, int]]) -> int:
    """Return the multiplications of a row, the sum over k of J_1 ... J_k R_{k-1} R_k."""
    columns, work = 1, 0
    for _, before, factor, after in cores:
        columns *= factor
        work += columns * before * after
    return work


def _least(shape: TTShape) -> int:
    return min((nbytes for _, nbytes in _mergings(shape)), default=0)


TT = SessionMemory(("rows", "bag"), _least, lambda shape, limit: merged_bytes(shape, limit or 0))
