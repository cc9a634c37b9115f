"""Sparse activations in C++ (runtime_ops/kernels/entmax/): the definitions of `edge_embed.ops.entmax`.

They compute rows of float32 tensors on the CPU that `training_library.serves`; otherwise that module uses torch.

Shapes: R rows of n scores, one alpha for all rows [1] or one each [R].
"""

import ctypes
from collections.abc import Callable
from functools import cache

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


def probabilities(scores: Tensor, alphas: Tensor) -> Tensor:
    """Return the alpha-entmax of scores [*, n] along the last dimension; the R rows are those of [*]."""
    found, function = torch.empty(scores.shape), _functions().ee_training_entmax
    rows = scores.detach().contiguous().reshape(-1, scores.shape[-1])
    _run(rows, alphas, lambda rows, *part: function(rows, *part, found.data_ptr()))
    return found


def backward(probabilities: Tensor, alphas: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of scores from the gradient of their probabilities, all [R, n]."""
    return _gradient("entmax_backward", probabilities, alphas, gradient, torch.empty(probabilities.shape))


def alpha_backward(probabilities: Tensor, alphas: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of each row's alpha [R] from the gradient of the probabilities [R, n]."""
    return _gradient("entmax_alpha_backward", probabilities, alphas, gradient, torch.empty(len(probabilities)))


def _gradient(name: str, probabilities: Tensor, alphas: Tensor, gradient: Tensor, to: Tensor) -> Tensor:
    probabilities, gradient = probabilities.detach().contiguous(), gradient.contiguous()
    function = getattr(_functions(), f"ee_training_{name}")
    _run(probabilities, alphas, lambda rows, *part: function(rows, gradient.data_ptr(), *part, to.data_ptr()))
    return to


def _run(rows: Tensor, alphas: Tensor, function: Callable[..., None]) -> None:
    """Run a function on parts of the rows side by side."""
    alphas = alphas.detach().contiguous()
    struct = _ScoreRows(rows.data_ptr(), alphas.data_ptr(), rows.shape[1], len(alphas) > 1)
    count = max(1, min(torch.get_num_threads(), len(rows), rows.numel() // _LEAST_WORK))

    def run(number: int) -> int:
        function(ctypes.byref(struct), len(rows) * number // count, len(rows) * (number + 1) // count)
        return 0

    training_library.run_parts(run, count)
