"""TT and TR: the last cores multiplied in advance, so that rows take fewer products (runtime_ops/kernels/tt/merge.h).

    G_k ... G_N  ->  one core of float32, [min(I_k ... I_N, n), R_{k-1}, J_k ... J_N, R_N]

Those of float16 that are left become float32 too. Of all k that fit into the limit, the one with the least work a row
is taken; none where none has less than the table itself, and none without a limit.
"""

import math
from collections.abc import Iterator, Sequence

from edge_embed.exporters.onnx.session_memory.method import SessionMemory
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.tt_shape import TTShape


def merged_bytes(shape: TTShape, most: int) -> int:
    """Bytes of the cores that a session makes where it may take ``most`` of them."""
    fitting = [(work, nbytes) for work, nbytes in _mergings(shape) if nbytes <= most]
    return min(fitting, key=lambda merging: merging[0], default=(0, 0))[1]


def _mergings(shape: TTShape) -> Iterator[tuple[int, int]]:
    """Work a row and bytes, of every k that makes rows less work than the table itself."""
    cores = list(zip(shape.row_shape, shape.ranks, shape.col_shape, shape.ranks[1:], strict=False))
    for first in range(len(cores) - 2, 0, -1):
        rows = min(math.prod(shape.row_shape[first:]), shape.num_embeddings)
        last = (rows, shape.ranks[first], math.prod(shape.col_shape[first:]), shape.ranks[-1])
        made = [last, *(cores[:first] if shape.value_type == "float16" else [])]
        work = _row_work([*cores[:first], last])
        if work < _row_work(cores):
            yield work, FLOAT_BYTES["float32"] * sum(map(math.prod, made))


def _row_work(cores: Sequence[tuple[int, int, int, int]]) -> int:
    """Multiplications of a row, sum over k of J_1 ... J_k R_{k-1} R_k."""
    columns, work = 1, 0
    for _, before, factor, after in cores:
        columns *= factor
        work += columns * before * after
    return work


def _least(shape: TTShape) -> int:
    return min((nbytes for _, nbytes in _mergings(shape)), default=0)


TT = SessionMemory(("rows", "bag"), _least, lambda shape, limit: merged_bytes(shape, limit or 0))
