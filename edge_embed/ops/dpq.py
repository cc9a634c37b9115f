"""Differentiable product quantisation (DPQ): codes, selection and packing.

    r_j(k) = <q_j, K_jk>                        (SX: dot product, eq. 3)
    r_j(k) = -|q_j|^2 + 2<q_j, K_jk> - |K_jk|^2  (VQ: Euclidean, eq. 6)
    c_j = argmax_k norm(r_j)(k)                 (eq. 1)
    H = [V_1[c_1], ..., V_D[c_D]]               (eq. 2), times a scale for each V_j in int8

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020
submission); ``norm`` is the batch norm over distances of the authors' released code: one mean and
variance per choice k, shared by all groups, without scale or centre.

Shapes: n rows, d embedding dim, D groups of width s = d/D, K codes per group; G = D, or 1 when
subspaces are shared; B ids.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.ops.storage import rounded, stored_array
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import VALUE_BYTES
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.floats import check_float_type

Variant = Literal["sx", "vq"]
ValueType = Literal["float32", "float16", "int8"]

NORM_EPS = 1e-5
# Float64 distances of one block: smaller blocks cost calls, larger ones cache misses (both measured).
_BLOCK_BYTES = 4 << 20


def responses(query: Tensor, key: Tensor, variant: str) -> Tensor:
    """Similarity of every query sub-vector to every key of its group.

    Args:
        query: [B, d].
        key: [G, K, s].
        variant: ``"sx"`` (eq. 3) or ``"vq"`` (eq. 6).

    Returns:
        [D, B, K], larger is closer.
    """
    groups: Tensor = query.unflatten(-1, (-1, key.shape[-1])).transpose(0, 1)  # [D, B, s]
    dots: Tensor = groups @ key.transpose(1, 2)  # [D, B, K]
    if variant == "sx":
        return dots
    return 2 * dots - groups.square().sum(-1, keepdim=True) - key.square().sum(-1).unsqueeze(1)


def inverse_deviation(variance: Tensor) -> Tensor:
    """What a distance, less its mean, is multiplied by in the batch norm: [K] -> [K]."""
    return torch.rsqrt(variance + NORM_EPS)


def codes(query: Tensor, key: Tensor, mean: Tensor | None, variance: Tensor | None, variant: str) -> Tensor:
    """Codes of query rows [B, d] as they are at inference: int64 [B, D]; the lowest k wins a tie."""
    return _distances(query, _affine(key, mean, variance, variant)).max(dim=-1).indices.t()


def _distances(query: Tensor, weights: Tensor) -> Tensor:
    """Normalised distances of query rows [B, d] at inference: float32 [D, B, K], larger is closer.

    ``weights`` [G, s + 2, K] are those of `_affine`. Distances are summed in float64 and compared in float32: the
    order of summation depends on the batch, and one flipped code replaces a whole sub-vector, so what differs by
    float64 rounding alone has to be a tie.
    """
    groups = query.double().unflatten(-1, (-1, weights.shape[1] - 2)).transpose(0, 1)  # [D, B, s]
    square = groups.square().sum(-1, keepdim=True)
    features = torch.cat((groups, square, torch.ones_like(square)), -1)  # [D, B, s + 2]
    return (features @ weights).float()


def _affine(key: Tensor, mean: Tensor | None, variance: Tensor | None, variant: str) -> Tensor:
    """Normalised distances as one matrix product with (q, |q|^2, 1): key [G, K, s] -> float64 [G, s + 2, K].

    A pass over all distances, for the norm or for a squared length, would cost as much as the product.
    """
    key = key.double()
    scale = key.new_ones(key.shape[1]) if variance is None else inverse_deviation(variance.double())
    shift = torch.zeros_like(scale) if mean is None else mean.double()
    if variant == "sx":
        by_query, by_square, constant = key, torch.zeros_like(key[..., :1]), torch.zeros_like(key[..., :1])
    else:
        by_query, by_square = 2 * key, -torch.ones_like(key[..., :1])
        constant = -key.square().sum(-1, keepdim=True)
    weights = torch.cat((by_query, by_square, constant - shift.unsqueeze(-1)), -1)  # [G, K, s + 2]
    return (weights * scale.unsqueeze(-1)).transpose(1, 2)


def select(value: Tensor, code: Tensor) -> Tensor:
    """Value rows selected by index (eq. 2): value [G, K, s], code [B, D] -> [B, d]."""
    num_groups, (stored_groups, num_codes, width) = code.shape[-1], value.shape
    if stored_groups > 1:
        code = code + num_codes * torch.arange(num_groups, device=code.device)
    return functional.embedding(code, value.reshape(-1, width)).flatten(-2)  # [B, D, s] -> [B, d]


def trainable_rows(
    ids: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    variant: str,
    padding_idx: int | None,
) -> Tensor:
    """Inference rows of a trainable table: ids of any shape -> [*ids, d] in the dtype of ``value``."""
    check_id_range(ids, query.shape[0])
    # A row costs D K distances: with more ids than rows, each row once is less. Skipped while ``torch.compile`` traces,
    # where the number of ids may not be known.
    if not torch.compiler.is_compiling() and ids.numel() > query.shape[0]:
        every = torch.arange(query.shape[0], device=query.device)
        table = trainable_rows(every, query, key, value, mean, variance, variant, padding_idx)  # [n, d]
        return functional.embedding(ids, table)
    chosen = query.detach().index_select(0, ids.reshape(-1).long())  # [B, d]
    return finish_rows(select(value, codes(chosen, key.detach(), mean, variance, variant)), ids, padding_idx)


def frozen_rows(
    ids: Tensor,
    packed_codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    num_groups: int,
    padding_idx: int | None,
) -> Tensor:
    """Rows of a frozen table -> [*ids, d].

    Args:
        ids: integers of any shape.
        packed_codes: uint8 [n, row_bytes].
        value: float or int8 [G, K, s].
        value_scales: float32 [G] of int8 values, or None.
        num_groups: D.
        padding_idx: the row that is zero, or None.
    """
    check_id_range(ids, packed_codes.shape[0])
    packed_rows = packed_codes.index_select(0, ids.reshape(-1).long())  # [B, row_bytes]
    code = unpack(packed_rows, bit_packing.bits_for(value.shape[1]), num_groups)  # [B, D]
    rows = select(value, code.clamp(max=value.shape[1] - 1))  # [B, d]
    if value_scales is not None:
        groups = rows.to(value_scales.dtype).unflatten(-1, (num_groups, -1))  # [B, D, s]
        rows = (groups * value_scales.unsqueeze(-1)).flatten(-2)
    return finish_rows(rows, ids, padding_idx)


def unpack(rows: Tensor, bits: int, num_groups: int) -> Tensor:
    """Unpack code rows uint8 [B, row_bytes] -> int64 [B, D] (layout: ``packed/FORMAT.md``)."""
    start = bits * torch.arange(num_groups, device=rows.device)  # [D], first bit of each code
    word = torch.zeros(rows.shape[0], num_groups, dtype=torch.int64, device=rows.device)
    for offset in range(-(-(7 + bits) // 8)):  # a code touches at most this many bytes
        byte = (start // 8 + offset).clamp(max=rows.shape[1] - 1)
        word |= rows.index_select(1, byte).long() << (8 * offset)
    return (word >> (start % 8)) & ((1 << bits) - 1)


def pack(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    variant: str,
    padding_idx: int | None,
    on_block: Callable[[int], None] = lambda rows: None,
) -> PackedDPQ:
    """Lower a trainable table: codes of all rows by inference statistics, packed row by row.

    Args:
        query: [n, d], read in blocks (it may be a memory-mapped file).
        key: [G, K, s]; for ``"vq"`` the value table itself.
        value: [G, K, s].
        mean: [K] running mean of the distances, or None without batch norm.
        variance: [K] running variance, or None.
        variant: ``"sx"`` or ``"vq"``.
        padding_idx: the row that is zero, or None.
        on_block: called with the number of finished rows after each block.

    Raises:
        BadInputError: if a weight is NaN or infinite, or the values are neither float32 nor float16.
    """
    values = stored_array(value)
    small = {"value": value, "key": key, "running_mean": mean, "running_var": variance}
    for name, tensor in small.items():
        if tensor is not None and not tensor.isfinite().all():
            raise BadInputError(f"{name} holds NaN or infinity: train the table again")
    (n, _), (_, num_codes, width) = query.shape, key.shape
    num_groups = query.shape[1] // width
    bits = bit_packing.bits_for(num_codes)
    packed = np.empty((n, bit_packing.row_bytes(num_groups, bits)), np.uint8)
    weights = _affine(key.detach(), mean, variance, variant)
    step = max(1, _BLOCK_BYTES // (8 * num_groups * num_codes))

    @torch.no_grad()
    def pack_block(begin: int) -> int:
        block = query[begin : begin + step]  # [step, d]
        if not block.isfinite().all():
            row = begin + int((~block.isfinite()).any(-1).nonzero()[0])
            raise BadInputError(f"query row {row} holds NaN or infinity: train the table again")
        # numpy's argmax is vectorised, torch's was measured 7 times slower at K = 256
        code = _distances(block, weights).cpu().numpy().argmax(-1).T  # [step, D]
        packed[begin : begin + len(code)] = bit_packing.pack(code, bits)
        return begin + len(code)

    # Blocks side by side, each on one thread: torch's own threads wait for each other after every small step.
    with ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for done in pool.map(pack_block, range(0, n, step)):
            on_block(done)
    if padding_idx is not None:
        packed[padding_idx] = 0
    return PackedDPQ(packed, values, num_groups, padding_idx)


def pack_frozen(
    codes: Tensor, value: Tensor, value_scales: Tensor | None, num_groups: int, padding_idx: int | None
) -> PackedDPQ:
    """The packed form of a frozen table, whose arguments are those of `frozen_rows`.

    Raises:
        BadInputError: if they do not fit each other, or values are of a type that is not stored.
    """
    values = value.detach().cpu().numpy() if value.dtype == torch.int8 else stored_array(value)
    scales = None if value_scales is None else stored_array(value_scales)
    return PackedDPQ(codes.detach().cpu().numpy(), values, num_groups, padding_idx, scales)


def with_value_type(value: Tensor, value_scales: Tensor | None, value_type: ValueType) -> tuple[Tensor, Tensor | None]:
    """Values [G, K, s] in another type, and the scales [G] of int8.

    Raises:
        BadInputError: if there is no such type, or a value is not finite in it.
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
    "Tensor query, Tensor key, Tensor value, Tensor? mean, Tensor? variance, str variant, int? padding_idx",
    trainable_rows,
    size=lambda query, *rest: (query.shape[0], query.shape[1]),
    like=lambda query, key, value, *rest: value,
)
FROZEN = define(
    "dpq_frozen",
    "Tensor codes, Tensor value, Tensor? value_scales, int num_groups, int? padding_idx",
    frozen_rows,
    size=lambda codes, value, value_scales, num_groups, padding_idx: (codes.shape[0], num_groups * value.shape[2]),
    like=lambda codes, value, value_scales, *rest: value if value_scales is None else value_scales,
)
