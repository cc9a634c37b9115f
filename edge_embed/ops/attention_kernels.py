"""Sparse attention in C++ (runtime_ops/training/attention.h): `edge_embed.ops.attention` in inference, in float32.

Values whose probability is zero are not read.
"""

import ctypes
import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from edge_embed.ops import training_library

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_STRIDES = _SIZE * 3  # of a sequence, an attention head and a position
_LEAST_WORK = 1 << 20  # products of a part that justifies its own thread: tens of microseconds


class _Attention(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("query", "key", "value", "mask", "alphas")),
        *((f"{name}_strides", _STRIDES) for name in ("query", "key", "value", "mask", "out")),
        *((name, _SIZE) for name in ("num_heads", "num_kv_heads", "queries", "keys", "width", "value_width")),
        ("scale", ctypes.c_float),
        ("alpha_per_attention_head", ctypes.c_int32),
    )


@cache
def _function() -> Any:
    loaded = training_library.library()
    assert loaded is not None
    function = loaded.ee_training_attention
    function.argtypes = [ctypes.POINTER(_Attention), _SIZE, _SIZE, _POINTER, _POINTER]
    function.restype = ctypes.c_int
    return function


def is_empty(query: Tensor, key: Tensor) -> bool:
    """Return whether there is nothing that a kernel could compute with."""
    return not query.numel() or not key.numel()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alphas: Tensor,
    mask: Tensor | None,
    scale: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the output [B, H, T, e], and probabilities [B, H, T, S] if needed; alphas are [1] or [H]."""
    batch, heads, queries, width = query.shape
    keys, value_width = key.shape[2], value.shape[-1]
    query, key, value = (_plain(each) for each in (query, key, value))
    added = None if mask is None else _added(mask, (batch, heads, queries, keys))
    alphas = alphas.detach().contiguous()
    out = torch.empty(batch, queries, heads, value_width).transpose(1, 2)  # in the order of the output layer
    weights = torch.empty(batch, heads, queries, keys) if need_weights else None
    struct = _Attention(
        *(None if each is None else each.data_ptr() for each in (query, key, value, added, alphas)),
        *(_strides(each) for each in (query, key, value, added, out)),
        *(heads, key.shape[1], queries, keys, width, value_width),
        scale,
        len(alphas) > 1,
    )
    rows = batch * heads * queries
    count = max(1, min(torch.get_num_threads(), rows, rows * keys * width // _LEAST_WORK))
    function, to = _function(), None if weights is None else weights.data_ptr()

    def run(number: int) -> int:
        part = rows * number // count, rows * (number + 1) // count
        return int(function(ctypes.byref(struct), *part, out.data_ptr(), to))

    if any(training_library.run_parts(run, count)):
        raise MemoryError(f"attention: no memory for {keys} keys of width {width}")
    return out, weights


def _plain(tensor: Tensor) -> Tensor:
    """Return a tensor whose last dimension is contiguous."""
    tensor = tensor.detach()
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _added(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a mask as numbers to add, as a view [B, H, T, S] that repeats what broadcasts."""
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    return _plain(mask.expand(*mask.shape[:-1], shape[-1])).expand(shape)


def _strides(tensor: Tensor | None) -> Any:
    return _STRIDES(*((0, 0, 0) if tensor is None else tensor.stride()[:3]))
