"""Settings of tables made of cores: trains, rings and low rank."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import Weight
from edge_embed.fitting.processes import Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.tt_shape import MAX_STATE

SIZES, TYPES = ("rank",), ("value_type",)


def decomposition(fit: Callable[..., TTEmbedding]) -> Callable[..., TTEmbedding]:
    """Adapt the ``fit`` of a decomposition, which has no randomness, no parts and always a trainable layer."""

    def fit_cores(
        weight: Weight,
        padding_idx: int | None,
        *,
        counts: Tensor | None,
        rank: int,
        processes: Processes,
        directions: Tensor | None = None,
        **unused: Any,
    ) -> TTEmbedding:
        given = {} if directions is None else {"directions": directions}
        return fit(weight, rank, padding_idx=padding_idx, counts=counts, processes=processes, **given)

    return fit_cores


def cores_within(
    method: str, layer: type[TTEmbedding], ranks_of: Callable[[TTEmbedding], tuple[int, ...]]
) -> Callable[[int, int, int, Types], Iterator[Setting]]:
    """Return a function that yields the setting with the largest rank whose cores fit into a number of bytes."""

    def within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
        try:
            pattern = layer(n, dim, rank=1, device="meta")  # every rank has its shapes
        except BadInputError:  # no shapes, or not packable
            return

        def size(rank: int) -> int:
            try:
                pattern.ranks = pattern._checked_ranks(rank)
            except BadInputError:  # not packable
                return nbytes + 1
            ranks = ranks_of(pattern)
            sizes = zip(pattern.row_shape, ranks, pattern.col_shape, ranks[1:], strict=False)
            return FLOAT_BYTES[types["value_type"]] * sum(map(math.prod, sizes))

        every = range(1, MAX_STATE + 1)
        if found := bisect_right(every, nbytes, key=size):
            rank = bisect_left(every, size(found), key=size) + 1  # larger ranks give cores of the same size
            yield Setting(method, {"rank": rank}, {"value_type": types["value_type"]})

    return within


def chain_method(
    name: str,
    fit: Callable[..., TTEmbedding],
    layer: type[TTEmbedding],
    ranks_of: Callable[[TTEmbedding], tuple[int, ...]],
) -> FittingMethod:
    """Return the `FittingMethod` of a train or ring; it must fit all rows, and a file has one number of cores."""
    within = cores_within(name, layer, ranks_of)
    return FittingMethod(decomposition(fit), SIZES, TYPES, within, needs_all=True, not_beside=("low_rank",))
