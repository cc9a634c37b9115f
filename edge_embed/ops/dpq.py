"""Differentiable product quantisation (DPQ): selection of values by code, and packing.

    c_j = the code of the key nearest to q_j    (eq. 1, `edge_embed.ops.dpq_distance`)
    H = [V_1[c_1], ..., V_D[c_D]]               (eq. 2), times a scale for each int8 V_j, or one for the row

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission).

Shapes: n rows, d embedding dim, D groups of value width s = d/D, K codes per group, B ids. Queries and keys have their
own widths D w and w (w = s by default, as in the paper). G = D, or 1 for shared subspaces.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops.dpq_distance import codes, distances, inference_weights, known_metric
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.ops.storage import rounded, stored_array
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import VALUE_BYTES
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.floats import check_float_type

ValueType = Literal["float32", "float16", "int8"]

# Float64 distances of one block: smaller blocks cost calls, larger ones cache misses (both measured).
_BLOCK_BYTES = 4 << 20


def select(value: Tensor, code: Tensor) -> Tensor:
    """Return the values selected by code (eq. 2): value [G, K, s], code [B, D] -> [B, d]."""
    # Few values are selected often: on the CPU the gradient of ``embedding`` takes eight times that of
    # ``index_select``.
    rows = value.flatten(0, 1).index_select(0, value_indices(value, code))  # [B D, s]
    return rows.reshape(*code.shape[:-1], code.shape[-1] * value.shape[-1])


def value_indices(value: Tensor, code: Tensor) -> Tensor:
    """Return the positions in ``value.flatten(0, 1)`` of code [B, D], as [B D]; value is [G, K, s]."""
    stored_groups, num_codes, _ = value.shape
    if stored_groups > 1:
        code = code + num_codes * torch.arange(stored_groups, device=code.device)
    return code.reshape(-1)


def trainable_rows(
    ids: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    metric: str,
    padding_idx: int | None,
) -> Tensor:
    """Return inference rows of a trainable table: ids of any shape -> [*ids, d] in the dtype of ``value``."""
    check_id_range(ids, query.shape[0])
    # A row costs D K distances: with more ids than rows, computing each row once is cheaper. This is skipped while
    # ``torch.compile`` traces, because the number of ids may be unknown.
    if not torch.compiler.is_compiling() and ids.numel() > query.shape[0]:
        every = torch.arange(query.shape[0], device=query.device)
        table = trainable_rows(every, query, key, value, mean, variance, metric, padding_idx)  # [n, d]
        return functional.embedding(ids, table)
    chosen = query.detach().index_select(0, ids.reshape(-1).long())  # [B, D w]
    code = codes(chosen, key.detach(), mean, variance, known_metric(metric))  # [B, D]
    return finish_rows(select(value, code), ids, padding_idx)


def frozen_rows(
    ids: Tensor,
    packed_codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    num_groups: int,
    padding_idx: int | None,
) -> Tensor:
    """Return rows of a frozen table [*ids, d].

    Args:
        ids: integers of any shape.
        packed_codes: uint8 [n, row_bytes].
        value: float or int8 [G, K, s].
        value_scales: float32 [G] of int8 values, or None.
        num_groups: number of groups D.
        padding_idx: the row of zeros, or None.
    """
    check_id_range(ids, packed_codes.shape[0])
    packed_rows = packed_codes.index_select(0, ids.reshape(-1).long())  # [B, row_bytes]
    code = unpack(packed_rows, bit_packing.bits_for(value.shape[1]), num_groups)  # [B, D]
    rows = select(value, code.clamp(max=value.shape[1] - 1))  # [B, d]
    if value_scales is not None:
        groups = rows.to(value_scales.dtype).unflatten(-1, (num_groups, -1))  # [B, D, s]
        rows = (groups * value_scales.unsqueeze(-1)).flatten(-2)
    return finish_rows(rows, ids, padding_idx)


def scaled_rows(
    ids: Tensor,
    packed_codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    row_scale_codes: Tensor | None,
    row_scales: Tensor | None,
    num_groups: int,
    unused_columns: int,
    padding_idx: int | None,
) -> Tensor:
    """Return `frozen_rows` of a table whose rows have scales, or whose last group is narrower: [*ids, d].

    Args:
        ids: integers of any shape.
        packed_codes: uint8 [n, row_bytes].
        value: float or int8 [G, K, s].
        value_scales: float32 [G] of int8 values, or None.
        row_scale_codes: uint8 [n], or None if rows have no scales.
        row_scales: float32 [S], or None.
        num_groups: number of groups D.
        unused_columns: number of columns at the end of the last group, D s - d.
        padding_idx: the row of zeros, or None.
    """
    flat = ids.reshape(-1)  # [B]
    rows = frozen_rows(flat, packed_codes, value, value_scales, num_groups, None)  # [B, D s]
    rows = rows[:, : rows.shape[1] - unused_columns]
    if row_scale_codes is not None and row_scales is not None:
        code = row_scale_codes.index_select(0, flat.long()).long()
        scale = row_scales.index_select(0, code.clamp(max=len(row_scales) - 1))
        rows = rows.to(row_scales.dtype) * scale.unsqueeze(-1)
    return finish_rows(rows, ids, padding_idx)


def unpack(rows: Tensor, bits: int, num_groups: int) -> Tensor:
    """Unpack code rows uint8 [B, row_bytes] -> int64 [B, D] (layout: ``packed/FORMAT.md``)."""
    start = bits * torch.arange(num_groups, device=rows.device)  # [D], first bit of each code
    word = torch.zeros(rows.shape[0], num_groups, dtype=torch.int64, device=rows.device)
    for offset in range(-(-(7 + bits) // 8)):  # a code spans at most this many bytes
        byte = (start // 8 + offset).clamp(max=rows.shape[1] - 1)
        word |= rows.index_select(1, byte).long() << (8 * offset)
    return (word >> (start % 8)) & ((1 << bits) - 1)


def pack(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    metric: str,
    padding_idx: int | None,
    on_block: Callable[[int], None] = lambda rows: None,
) -> PackedDPQ:
    """Pack a trainable table: the codes of all rows by inference statistics, packed row by row.

    Args:
        query: [n, D w], read in blocks (it may be a memory-mapped file).
        key: [G, K, w]; the value table itself if keys and values are tied.
        value: [G, K, s].
        mean: [K] or [D, K], running mean of the distances, or None without batch norm.
        variance: running variance, of the shape of ``mean``, or None.
        metric: a metric of `edge_embed.ops.dpq_distance`.
        padding_idx: the row of zeros, or None.
        on_block: called with the number of finished rows after each block.

    Raises:
        BadInputError: if a weight is NaN or infinite, the values are neither float32 nor float16, or the metric is
            unknown.
    """
    known = known_metric(metric)
    values = stored_array(value)
    small = {"value": value, "key": key, "running_mean": mean, "running_var": variance}
    for name, tensor in small.items():
        if tensor is not None and not tensor.isfinite().all():
            raise BadInputError(f"{name} contains NaN or infinity: train the table again")
    (n, _), (_, num_codes, width) = query.shape, key.shape
    num_groups = query.shape[1] // width
    bits = bit_packing.bits_for(num_codes)
    packed = np.empty((n, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    weights = inference_weights(key.detach(), mean, variance, known)
    step = max(1, _BLOCK_BYTES // (8 * num_groups * num_codes))

    @torch.no_grad()
    def pack_block(begin: int) -> int:
        block = query[begin : begin + step]  # [step, D w]
        if not block.isfinite().all():
            row = begin + int((~block.isfinite()).any(-1).nonzero()[0])
            raise BadInputError(f"query row {row} contains NaN or infinity: train the table again")
        # numpy's argmax is vectorised; torch's was measured 7 times slower at K = 256
        code = distances(block, weights, known).cpu().numpy().argmax(-1).T  # [step, D]
        packed[begin : begin + len(code)] = bit_packing.pack(code, bits)
        return begin + len(code)

    # Blocks run side by side with one thread each: torch's own threads wait for each other after every small step.
    with ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for done in pool.map(pack_block, range(0, n, step)):
            on_block(done)
    if padding_idx is not None:
        packed[padding_idx] = 0
    return PackedDPQ(packed, values, num_groups, padding_idx)


def pack_scaled(
    codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    row_scale_codes: Tensor | None,
    row_scales: Tensor | None,
    num_groups: int,
    unused_columns: int,
    padding_idx: int | None,
) -> PackedDPQ:
    """Pack a frozen table, given as the arguments of `scaled_rows`.

    Raises:
        BadInputError: if they do not fit each other, or the dtype of the values cannot be stored.
    """
    values = value.detach().cpu().numpy() if value.dtype == torch.int8 else stored_array(value)
    return PackedDPQ(
        codes.detach().cpu().numpy(),
        values,
        num_groups,
        padding_idx,
        None if value_scales is None else stored_array(value_scales),
        None if row_scale_codes is None else row_scale_codes.detach().cpu().numpy(),
        None if row_scales is None else stored_array(row_scales),
        unused_columns,
    )


def pack_frozen(
    codes: Tensor, value: Tensor, value_scales: Tensor | None, num_groups: int, padding_idx: int | None
) -> PackedDPQ:
    """Pack a frozen table, given as the arguments of `frozen_rows`."""
    return pack_scaled(codes, value, value_scales, None, None, num_groups, 0, padding_idx)


def with_value_type(value: Tensor, value_scales: Tensor | None, value_type: ValueType) -> tuple[Tensor, Tensor | None]:
    """Return the values [G, K, s] in another dtype, and the scales [G] of int8 or None.

    Raises:
        BadInputError: if the dtype is unknown, or a value is not finite in it.
    """
    check_float_type("value_type", value_type, tuple(VALUE_BYTES))
    if value_scales is not None:
        if value_type == "int8":
            return value, value_scales
        value = value.to(value_scales.dtype) * value_scales[:, None, None]
    if value_type != "int8":
        return rounded(value, value_type), None
    stored, scales = quantized(stored_array(value))
    return torch.from_numpy(stored).to(value.device), torch.from_numpy(scales).to(value.device)


TRAINABLE = define(
    "dpq_trainable",
    "Tensor query, Tensor key, Tensor value, Tensor? mean, Tensor? variance, str metric, int? padding_idx",
    trainable_rows,
    size=lambda query, key, value, *rest: (query.shape[0], query.shape[1] // key.shape[2] * value.shape[2]),
    like=lambda query, key, value, *rest: value,
)
FROZEN = define(
    "dpq_frozen",
    "Tensor codes, Tensor value, Tensor? value_scales, int num_groups, int? padding_idx",
    frozen_rows,
    size=lambda codes, value, value_scales, num_groups, padding_idx: (codes.shape[0], num_groups * value.shape[2]),
    like=lambda codes, value, value_scales, *rest: value if value_scales is None else value_scales,
)
SCALED = define(
    "dpq_scaled",
    "Tensor codes, Tensor value, Tensor? value_scales, Tensor? row_scale_codes, Tensor? row_scales, int num_groups, "
    "int unused_columns, int? padding_idx",
    scaled_rows,
    size=lambda codes, value, value_scales, row_scale_codes, row_scales, num_groups, unused_columns, padding_idx: (
        codes.shape[0],
        num_groups * value.shape[2] - unused_columns,
    ),
    like=lambda codes, value, value_scales, row_scale_codes, row_scales, *rest: next(
        scales for scales in (row_scales, value_scales, value) if scales is not None
    ),
)

FORMS = (TRAINABLE, FROZEN, SCALED)
