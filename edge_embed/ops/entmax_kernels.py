"""Sparse activations in C++ (runtime_ops/kernels/entmax/): the definitions of `edge_embed.ops.entmax`.

They compute rows of float32 tensors on the CPU that `training_library.serves`; otherwise that module uses torch.

Shapes: R rows of n scores, one alpha for all rows [1] or one each [R].
"""

import ctypes
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from edge_embed.ops import training_library

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_LEAST_WORK = 1 << 15  # scores of a part that justifies its own thread: tens of microseconds


class _ScoreRows(ctypes.Structure):
    _fields_ = (("scores", _POINTER), ("alphas", _POINTER), ("n", _SIZE), ("alpha_per_row", ctypes.c_int32))


@cache
def _functions() -> ctypes.CDLL:
    """Return the library with the types of its functions of sparse activations."""
    loaded = training_library.library()
    assert loaded is not None
    rows, of_part = ctypes.POINTER(_ScoreRows), [_SIZE, _SIZE]
    types = {
        "entmax": [rows, *of_part, _POINTER],
        "entmax_backward": [rows, _POINTER, *of_part, _POINTER],
        "entmax_alpha_backward": [rows, _POINTER, *of_part, _POINTER],
    }
    for name, arguments in types.items():
        function = getattr(loaded, f"ee_training_{name}")
        function.argtypes, function.restype = arguments, None
    return loaded


def of_plain_rows(scores: Tensor, alpha: float) -> Tensor:
    """Return the alpha-entmax of contiguous scores [*, n] along the last dimension, with little work besides it."""
    found, number = torch.empty_like(scores), _number(alpha)
    n, rows = scores.shape[-1], scores.numel() // scores.shape[-1]
    struct = _ScoreRows(scores.data_ptr(), ctypes.addressof(number), n, 0)
    _run(_functions().ee_training_entmax, [ctypes.byref(struct)], rows, n, found)
    return found


def gradient_of_plain_rows(probabilities: Tensor, alpha: float, gradient: Tensor) -> Tensor:
    """Return the gradient of scores from contiguous probabilities [*, n] and their gradient."""
    found, number = torch.empty_like(probabilities), _number(alpha)
    n, rows = probabilities.shape[-1], probabilities.numel() // probabilities.shape[-1]
    struct = _ScoreRows(probabilities.data_ptr(), ctypes.addressof(number), n, 0)
    _run(_functions().ee_training_entmax_backward, [ctypes.byref(struct), gradient.data_ptr()], rows, n, found)
    return found


@lru_cache(maxsize=256)
def _number(alpha: float) -> ctypes.c_float:
    """Return alpha in memory, which lasts as long as the returned object."""
    return ctypes.c_float(alpha)


def probabilities(scores: Tensor, alphas: Tensor) -> Tensor:
    """Return the alpha-entmax of scores [*, n] along the last dimension; the R rows are those of [*]."""
    found = torch.empty_like(scores, memory_format=torch.contiguous_format)
    _run_rows("entmax", scores.detach().contiguous(), alphas, [], found)
    return found


def backward(probabilities: Tensor, alphas: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of scores from the gradient of their probabilities, all [R, n]."""
    found = torch.empty_like(probabilities, memory_format=torch.contiguous_format)
    gradient = gradient.contiguous()
    _run_rows("entmax_backward", probabilities.detach().contiguous(), alphas, [gradient.data_ptr()], found)
    return found


def alpha_backward(probabilities: Tensor, alphas: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of each row's alpha [R] from the gradient of the probabilities [R, n]."""
    found, gradient = probabilities.new_empty(len(probabilities)), gradient.contiguous()
    _run_rows("entmax_alpha_backward", probabilities.detach().contiguous(), alphas, [gradient.data_ptr()], found)
    return found


def _run_rows(name: str, rows: Tensor, alphas: Tensor, arguments: list[Any], found: Tensor) -> None:
    """Run a function of contiguous rows [*, n]."""
    alphas, n = alphas.detach().contiguous(), rows.shape[-1]
    struct = _ScoreRows(rows.data_ptr(), alphas.data_ptr(), n, alphas.numel() > 1)
    function = getattr(_functions(), f"ee_training_{name}")
    _run(function, [ctypes.byref(struct), *arguments], rows.numel() // n, n, found)


def _run(function: Any, arguments: list[Any], rows: int, n: int, found: Tensor) -> None:
    """Run a function on parts of the rows side by side."""
    to, work = found.data_ptr(), rows * n // _LEAST_WORK
    count = min(torch.get_num_threads(), rows, work) if work > 1 else 1
    if count == 1:
        function(*arguments, 0, rows, to)
        return

    def run(number: int) -> int:
        function(*arguments, rows * number // count, rows * (number + 1) // count, to)
        return 0

    training_library.run_parts(run, count)
