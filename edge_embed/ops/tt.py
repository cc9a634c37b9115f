"""Tensor train (TT): rows from a few small cores, and packing.

    id = ((i_1 I_2 + i_2) I_3 + i_3) ...       column = ((j_1 J_2 + j_2) J_3 + j_3) ...
    E[id, column] = trace(G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :])

Source: "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), eq. (1). The order of the
indices is that of the packed form: i_1 and j_1 are most significant. With R_0 = R_N = 1 the trace is a single number.
With larger ranks the table is a tensor ring (appendix B of the paper). If rows have their own order, the id in eq. (1)
is row_order[id].

Shapes: N cores [I_k, R_{k-1}, J_k, R_k], n <= prod I_k rows, d = prod J_k, B ids.
"""

import math

import torch
from torch import Tensor

from edge_embed.ops import pairwise
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.ops.storage import stored_array
from edge_embed.packed.row_order import checked_row_order
from edge_embed.packed.tt import PackedTT


def digits(ids: Tensor, row_shape: list[int]) -> list[Tensor]:
    """Return the row indices i_1 ... i_N of int64 ids [B], each [B]; i_1 is most significant."""
    found = []
    for size in reversed(row_shape[1:]):
        found.append(ids % size)
        ids = ids.div(size, rounding_mode="floor")
    return [ids, *reversed(found)]


def chain(ids: Tensor, cores: list[Tensor]) -> Tensor:
    """Return the products of the slices of int64 ids [B] from left to right: [B, d] in the dtype of the cores.

    The last product includes the trace, by joining R_0 and R_{N-1} into one index. The matrices [R_0, R_0] of a ring
    are never materialised, as the trace needs only their diagonal.
    """
    wide = torch.promote_types(cores[0].dtype, torch.float32)
    ring, columns = cores[0].shape[1], [core.shape[2] for core in cores]
    first, *others = [
        core.index_select(0, digit).to(wide)
        for core, digit in zip(cores, digits(ids, [core.shape[0] for core in cores]), strict=True)
    ]  # [B, R, J, R']
    state = first.flatten(1, 2)  # [B, R_0 J_1, R_1]
    for step in others[:-1]:
        state = pairwise.product(state, step.flatten(2))  # [B, R_0 J.., J R']
        state = state.reshape(-1, state.shape[1] * step.shape[2], step.shape[3])  # [B, R_0 J.., R']
    state = state.reshape(-1, ring, math.prod(columns[:-1]), state.shape[2]).transpose(1, 2).flatten(2)
    last = others[-1].permute(0, 3, 1, 2).flatten(1, 2)  # [B, R_0 R_{N-1}, J_N]
    return pairwise.product(state, last).reshape(-1, math.prod(columns)).to(cores[0].dtype)


def block(begin: int, end: int, cores: list[Tensor]) -> Tensor:
    """Return `chain` of the ids begin .. end - 1: rows with equal first digits share the products of these.

    Each core is multiplied once, for all its digits, with everything before it: a few large products in place of one
    for each row.
    """
    wide = torch.promote_types(cores[0].dtype, torch.float32)
    ring, width = cores[0].shape[1], _width(cores)
    first, *others, last = (core.to(wide) for core in cores)
    steps = [math.prod(core.shape[0] for core in cores[place + 1 :]) for place in range(len(cores))]
    spans = [(begin // step, -(-end // step)) for step in steps]  # ranges of ids truncated after each digit
    state = first[slice(*spans[0])].flatten(1, 2)  # [P, R_0 J_1, R_1]
    for place, core in enumerate(others, 1):
        state = _with_every_digit(state, core.flatten(2)).unflatten(-1, core.shape[2:]).flatten(1, 2)
        state = _part(state, spans[place - 1], spans[place], len(core))  # [P, R_0 J.., R]
    state = state.unflatten(1, (ring, -1)).transpose(1, 2).flatten(2)  # [P, J.., R_0 R_{N-1}]
    rows = _with_every_digit(state, last.permute(0, 3, 1, 2).flatten(1, 2)).reshape(-1, width)
    return _part(rows, spans[-2], spans[-1], len(last)).to(cores[0].dtype)


def _with_every_digit(state: Tensor, slices: Tensor) -> Tensor:
    """Return the products of [P, M, R] with slices [I, R, J], in the order of ids: [P I, M, J]."""
    count, _, columns = slices.shape
    product = pairwise.product(state.flatten(0, 1), slices.transpose(0, 1).flatten(1))  # [P M, I J]
    return product.view(*state.shape[:2], count, columns).transpose(1, 2).flatten(0, 1)


def _part(found: Tensor, before: tuple[int, int], span: tuple[int, int], digits: int) -> Tensor:
    """Return the part of a span of ids from the results for all digits after the previous span."""
    return found[span[0] - before[0] * digits : span[1] - before[0] * digits]


def _width(cores: list[Tensor]) -> int:
    return math.prod([core.shape[2] for core in cores])


def rows(ids: Tensor, cores: list[Tensor], num_embeddings: int, padding_idx: int | None) -> Tensor:
    """Return rows of a table: ids of any shape -> [*ids, d]; differentiable.

    Raises:
        IdOutOfRangeError: for ids below 0 or at least ``num_embeddings``, although the cores may have more rows.
    """
    check_id_range(ids, num_embeddings)
    return finish_rows(chain(ids.reshape(-1).long(), cores), ids, padding_idx)


def ordered_rows(
    ids: Tensor, cores: list[Tensor], row_order: Tensor, num_embeddings: int, padding_idx: int | None
) -> Tensor:
    """Return `rows` of a table with its own order: ``row_order`` int32 or int64 [n]."""
    check_id_range(ids, num_embeddings)
    return rows(placed(ids, row_order), cores, num_embeddings, padding_idx)


def placed(ids: Tensor, row_order: Tensor) -> Tensor:
    """Return the row of each id."""
    return row_order.index_select(0, ids.reshape(-1)).reshape(ids.shape)


def pack(
    cores: list[Tensor], num_embeddings: int, padding_idx: int | None, row_order: Tensor | None = None
) -> PackedTT:
    """Pack a table: its cores unchanged, its order as int32.

    Raises:
        BadInputError: if a weight is NaN or infinite, or neither float32 nor float16; if the order is not a
            permutation.
    """
    arrays = tuple(stored_array(core) for core in cores)
    order = None if row_order is None else checked_row_order(row_order.cpu().numpy(), num_embeddings, padding_idx)
    return PackedTT(arrays, num_embeddings, padding_idx, order)


TT = define(
    "tt",
    "Tensor[] cores, int num_embeddings, int? padding_idx",
    rows,
    size=lambda cores, num_embeddings, padding_idx: (num_embeddings, _width(cores)),
    like=lambda cores, num_embeddings, padding_idx: cores[0],
)

ORDERED = define(
    "tt_ordered",
    "Tensor[] cores, Tensor row_order, int num_embeddings, int? padding_idx",
    ordered_rows,
    size=lambda cores, row_order, num_embeddings, padding_idx: (num_embeddings, _width(cores)),
    like=lambda cores, row_order, num_embeddings, padding_idx: cores[0],
)

FORMS = (TT, ORDERED)
