"""Training steps of DPQ in C++ (runtime_ops/training/training.h): one pass in place of dozens of small torch steps.

They compute the definitions of `edge_embed.ops.dpq_distance` and `edge_embed.ops.dpq_straight_through` for float32
tensors on the CPU that `training_library.serves`; otherwise those modules use torch.

Shapes: B queries, D groups of key width w and value width s, f features of a query, K codes per group; G = D, or 1 for
shared subspaces.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edge_embed.ops import training_library

_POINTER, _SIZE, _INT32, _FLOAT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_float
_METRICS = ("dot", "euclidean", "cosine")  # as numbered in training.h
_FEW = 64  # queries whose mean is close enough to that of all
_LEAST_WORK = 1 << 22  # products of a part that justifies its own thread: half a millisecond


class _Distances(ctypes.Structure):
    _fields_ = (
        ("query", _POINTER),
        ("weights", _POINTER),
        ("num_queries", _SIZE),
        ("num_groups", _SIZE),
        ("width", _SIZE),
        ("num_codes", _SIZE),
        ("metric", _INT32),
        ("per_group", _INT32),
    )


class _Values(ctypes.Structure):
    _fields_ = (("data", _POINTER), ("width", _SIZE), ("per_group", _INT32))


class _Codes(ctypes.Structure):
    _fields_ = (("data", _POINTER), ("bytes", _INT32))


@cache
def _functions() -> ctypes.CDLL:
    """Return the library with the types of its functions of DPQ."""
    loaded = training_library.library()
    assert loaded is not None
    of_part = [_SIZE, _SIZE]
    distances, values, codes = (ctypes.POINTER(each) for each in (_Distances, _Values, _Codes))
    functions = {
        "nearest": [distances, *of_part, codes, _POINTER],
        "rows": [distances, values, codes, *of_part, _POINTER],
        "soft_backward": [distances, values, codes, _FLOAT, _POINTER, *of_part, _POINTER, _POINTER, _POINTER],
        "centroid_backward": [distances, values, codes, _POINTER, *of_part, _POINTER],
        "products": [distances, _POINTER, _POINTER, *of_part, _POINTER],
        "products_backward": [distances, *[_POINTER] * 4, *of_part, _POINTER],
    }
    for name, types in functions.items():
        getattr(loaded, f"ee_training_{name}").argtypes = types
    return loaded


def width_of(num_features: int, metric: str) -> int:
    """Return the key width w of f features."""
    return num_features - (2 if metric == "euclidean" else 1)


class Distances(NamedTuple):
    """Distances of ``query`` [B, D w] to keys, by ``weights`` [G, f, K] of `edge_embed.ops.dpq_distance.affine`."""

    query: Tensor
    weights: Tensor
    metric: str

    @property
    def num_queries(self) -> int:
        """Number of queries B."""
        return len(self.query)

    @property
    def num_groups(self) -> int:
        """Number of groups D."""
        return self.query.shape[1] // self.width

    @property
    def width(self) -> int:
        """Width w of a key."""
        return width_of(self.weights.shape[1], self.metric)

    @property
    def struct(self) -> _Distances:
        """Argument of the library; ``query`` and ``weights`` must be contiguous and outlive it."""
        stored_groups, _, num_codes = self.weights.shape
        sizes = self.num_queries, self.num_groups, self.width, num_codes
        kinds = _METRICS.index(self.metric), stored_groups > 1
        return _Distances(self.query.data_ptr(), self.weights.data_ptr(), *sizes, *kinds)


def distances(query: Tensor, weights: Tensor, metric: str) -> Distances:
    """Return `Distances` of tensors that need not be contiguous."""
    return Distances(query.detach().contiguous(), weights.detach().contiguous(), metric)


def code_type(num_codes: int) -> torch.dtype:
    """Return the dtype of codes in training, uint8 or int32: they are kept from the forward to the backward pass."""
    return torch.uint8 if num_codes <= 256 else torch.int32


def nearest(of: Distances) -> Tensor:
    """Return codes [D, B] of `code_type`."""
    codes = _no_codes(of)
    _run(of, "nearest", lambda part: (*part, _codes(codes), None))
    return codes


def nearest_and_leads(of: Distances) -> tuple[Tensor, Tensor]:
    """Return `nearest` and the lead of each code over the next one, [D, B]; NaN or infinite if there is no next one."""
    codes, leads = _no_codes(of), torch.empty(of.num_groups, of.num_queries)
    _run(of, "nearest", lambda part: (*part, _codes(codes), leads.data_ptr()))
    return codes, leads


def rows(value: Tensor, codes: Tensor) -> Tensor:
    """Return rows [B, D s] of the values [G, K, s] of codes [D, B] of `code_type`, contiguous."""
    (num_groups, num_queries), (_, num_codes, width) = codes.shape, value.shape
    # The function only reads the sizes of these tensors.
    of = Distances(value.new_empty(()).expand(num_queries, num_groups), value.new_empty(0, 2, num_codes), "dot")
    struct, found = _values(value), torch.empty(num_queries, num_groups * width)
    _run(of, "rows", lambda part: (ctypes.byref(struct), _codes(codes), *part, found.data_ptr()))
    return found


def soft_backward(
    of: Distances, value: Tensor, codes: Tensor, temperature: float, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of query [B, D w], weights [G, f, K] and values [G, K, s] from a gradient of rows [B, D s]."""
    struct = _values(value)
    gradient, query_gradient = gradient.contiguous(), torch.empty_like(of.query)
    of_weights, of_values = _sums(of, of.weights), _sums(of, value)
    _run(
        of,
        "soft_backward",
        lambda part, *sums: (
            *(ctypes.byref(struct), _codes(codes), temperature, gradient.data_ptr()),
            *(*part, query_gradient.data_ptr(), *sums),
        ),
        of_weights,
        of_values,
    )
    return query_gradient, of_weights.sum(0).float(), of_values.sum(0).float()


def centroid_backward(query: Tensor, value: Tensor, codes: Tensor, shares: Tensor) -> Tensor:
    """Return the gradient of values [G, K, s] from the queries [B, D s] that chose them, with shares [B]."""
    of = Distances(query.contiguous(), value.new_empty(0, value.shape[2] + 1, value.shape[1]), "dot")
    struct, shares = _values(value), shares.contiguous()
    learned = _sums(of, value)
    _run(
        of,
        "centroid_backward",
        lambda part, sums: (ctypes.byref(struct), _codes(codes), shares.data_ptr(), *part, sums),
        learned,
    )
    return learned.sum(0).float()


def moments(query: Tensor, shares: Tensor, num_features: int, metric: str) -> tuple[Tensor, Tensor]:
    """Return mean [D, f] and covariance [D, f, f] of the features of queries [B, D w], with shares [B] that sum to 1.

    Both are computed in one pass about a nearby origin: the mean of the first queries.
    """
    few = query[:_FEW]
    origin = torch.zeros(query.shape[1] // width_of(num_features, metric), num_features)
    origin = _products(few, torch.full_like(shares[:_FEW], 1 / max(1, len(few))), origin, metric)[..., -1].float()
    origin[:, -1] = 0
    products = _products(query, shares, origin, metric)  # float64
    moved = products[..., -1].clone()  # [D, f]
    centre = (origin + moved).float()
    moved[:, -1] = 0
    products[:, -1] = 0
    products[..., -1] = 0
    return centre, (products - moved.unsqueeze(-1) * moved.unsqueeze(1)).float()


def _products(query: Tensor, shares: Tensor, origin: Tensor, metric: str) -> Tensor:
    """Return sums of products of features relative to an origin [D, f], float64 [D, f, f]."""
    of = _without_weights(query, origin.shape[1], metric)
    sums, shares = _sums(of, query.new_empty(of.num_groups, *of.weights.shape[1:])), shares.contiguous()
    _run(of, "products", lambda part, to: (shares.data_ptr(), origin.data_ptr(), *part, to), sums)
    return sums.sum(0)


def moments_backward(
    query: Tensor,
    shares: Tensor,
    metric: str,
    centre: Tensor,
    of_centre: Tensor,
    of_covariance: Tensor,
) -> Tensor:
    """Return the gradient of queries [B, D w] from the gradients [D, f] and [D, f, f] of `moments`."""
    of, shares = _without_weights(query, centre.shape[1], metric), shares.contiguous()
    learned = torch.empty_like(of.query)
    of_centre, both = of_centre.contiguous(), of_covariance + of_covariance.transpose(1, 2)
    given = shares.data_ptr(), centre.data_ptr(), of_centre.data_ptr(), both.data_ptr()
    _run(of, "products_backward", lambda part: (*given, *part, learned.data_ptr()))
    return learned


def _without_weights(query: Tensor, num_features: int, metric: str) -> Distances:
    return Distances(query.detach().contiguous(), query.new_empty(0, num_features, num_features), metric)


def _values(value: Tensor) -> _Values:
    """Return the struct over values [G, K, s], which it keeps alive."""
    values = value.detach().contiguous()
    struct = _Values(values.data_ptr(), values.shape[2], len(values) > 1)
    struct.tensor = values
    return struct


def _no_codes(of: Distances) -> Tensor:
    return torch.empty(of.num_groups, of.num_queries, dtype=code_type(of.weights.shape[-1]))


def _codes(codes: Tensor) -> _Codes:
    return _Codes(codes.data_ptr(), codes.element_size())


def _num_parts(of: Distances) -> int:
    _, features, num_codes = of.weights.shape
    work = of.query.numel() // max(1, of.width) * features * num_codes
    return max(1, min(torch.get_num_threads(), work // _LEAST_WORK))


def _sums(of: Distances, like: Tensor) -> Tensor:
    """Return float64 zeros for each part: every part sums over its queries in its own memory."""
    return torch.zeros(_num_parts(of), *like.shape, dtype=torch.float64)


def _run(of: Distances, name: str, arguments: Callable[..., tuple[Any, ...]], *sums: Tensor) -> None:
    """Run a function on parts of the queries side by side; ``arguments`` gets a part and its address in each sum."""
    function, struct = getattr(_functions(), f"ee_training_{name}"), ctypes.byref(of.struct)
    count = _num_parts(of)

    def run(number: int) -> int:
        part = of.num_queries * number // count, of.num_queries * (number + 1) // count
        status: int = function(struct, *arguments(part, *(each[number].data_ptr() for each in sums)))
        return status

    if any(training_library.run_parts(run, count)):
        raise MemoryError(f"not enough memory for the distances of {of.num_queries} queries")
