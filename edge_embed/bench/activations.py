"""Sparse activations in the benchmark: functions as nodes of ONNX Runtime, attention as the kernel for inference.

    functions    scores [B, n], standard normal                 -> probabilities [B, n]
    attention    queries, keys, values [B, 8, n, 64], normal    -> mean of values [B, 8, n, 64]

Queries of attention are scaled until 90 % of the probabilities are zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import helper
from torch import Tensor
from torch.nn import functional as F

from edge_embed.bench.activation_grid import ATTENTION, ActivationGrid
from edge_embed.bench.figures import cpu_clock, figure_of
from edge_embed.bench.peers.peer import Answering, Bind, FunctionCalls
from edge_embed.bench.run import Progress, load, torch_threads, versions
from edge_embed.bench.sessions import bind_nodes
from edge_embed.errors import ParityError
from edge_embed.exporters.onnx.entmax import function
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.ops.attention import attention
from edge_embed.ops.entmax import entmax, topk_sparsemax
from edge_embed.packed.manifest import FORMAT_VERSION
from edge_embed.report.results.bench import Figure
from edge_embed.report.results.bench_activations import ActivationBench, ActivationMeasurement
from edge_embed.validation.machine import machine
from edge_embed.validation.timing import Feeds, time_rounds

_ALPHA = 1.3  # of entmax: like a learned one, it has no exact path
_ALPHAS = {"sparsemax": 2.0, "entmax15": 1.5, "entmax": _ALPHA}
_OP_TYPES = {"sparsemax": "Sparsemax", "entmax15": "Entmax15", "entmax": "Entmax", "topk_sparsemax": "TopKSparsemax"}
_SCORES = {"scores": (np.float32, 2)}
_NUM_HEADS, _WIDTH, _ZEROS = 8, 64, 0.9
_SAMPLE = 1 << 18  # scores between two readings of the clock
_MOST_CALLS = 32
_WARMUP = 2
_TOLERANCE = 1e-5
_METHOD = (
    "Each round runs all contenders in random order on the same new inputs; sessions have preallocated inputs and "
    "outputs. Figures: medians, and median ratios within rounds with 95 % bootstrap intervals, of CPU time on one "
    "thread and of wall time on several."
)


@dataclass(frozen=True)
class _Contender:
    """One side: name, the timed call, how it is bound to inputs, and whether its numbers are those of ours."""

    name: str
    what: str
    bind: Bind
    is_same: bool = True


@dataclass(frozen=True)
class _Subject:
    """Activation at one size, with ours as the first contender.

    Attributes:
        activation: the function with its alpha or k.
        draw: returns inputs of one call.
        exact: (inputs) -> the result in float64, and the probabilities.
        contenders: all sides.
    """

    activation: str
    draw: Callable[[np.random.Generator], Feeds]
    exact: Callable[[Feeds], tuple[Tensor, Tensor]]
    contenders: Sequence[_Contender]


def bench_activations(grid: ActivationGrid, progress: Progress = lambda *_: None) -> ActivationBench:
    """Measure every combination of the grid.

    Raises:
        EdgeEmbedError: if there is no operator library.
        ParityError: if our own numbers are wrong.
    """
    cases = [
        (use, scores, batch, threads, option)
        for use in grid.use
        for scores, batch, threads in product(grid.sizes(use), grid.batches(use), grid.threads)
        for option in (_ALPHAS if use == ATTENTION else grid.k if use == "topk_sparsemax" else (None,))
    ]
    state = machine(max(grid.threads)) | versions("torch") | {"load": load()}
    random, found = np.random.default_rng(grid.seed), list[ActivationMeasurement]()
    with torch.no_grad():
        for use, scores, batch, threads, option in cases:
            with torch_threads(threads):
                if use == ATTENTION:
                    subject = _attention(str(option), batch, scores, random)
                else:
                    subject = _function(use, batch, scores, threads, option)
                figures = _measured(subject, _calls(scores, batch, use), grid.rounds, batch, threads, random)
            found.append(ActivationMeasurement(use, subject.activation, scores, batch, threads, *figures))
            progress("measured", len(found), len(cases))
    return ActivationBench(grid.seed, grid.rounds, state, _METHOD, tuple(found))


def _calls(scores: int, batch: int, use: str) -> int:
    rows = batch * _NUM_HEADS * scores if use == ATTENTION else batch
    return min(_MOST_CALLS, max(1, _SAMPLE // (rows * scores)))


def _function(use: str, batch: int, scores: int, threads: int, k: Any) -> _Subject:
    """Return a function of rows of scores."""
    alpha = _ALPHAS.get(use)
    options = {"format_version": FORMAT_VERSION} | ({} if k is None else {"k": k})
    tensors = {"alpha": np.full((1,), alpha, np.float32)} if use == "entmax" else {}
    op_type = _OP_TYPES[use]
    node = helper.make_node(op_type, ["scores", *tensors], ["probabilities"], domain=DOMAIN, **options)

    def session(library: bool) -> Bind:
        return bind_nodes([node], tensors, _SCORES, threads, functions=[function(op_type)], library=library)

    def compute(rows: Tensor) -> Tensor:
        return topk_sparsemax(rows, k) if alpha is None else entmax(rows, alpha)

    def exact(feeds: Feeds) -> tuple[Tensor, Tensor]:
        found = compute(torch.from_numpy(feeds["scores"]).double())
        return found, found

    softmax = helper.make_node("Softmax", ["scores"], ["probabilities"], axis=-1)
    contenders = [
        _Contender("custom op", "the node with its kernel", session(library=True)),
        _Contender("portable body", "the same node, computed by its body of standard operators", session(False)),
        _Contender("edge_embed in torch", "the function of edge_embed on a tensor", _in_torch(compute)),
        _Contender("ORT Softmax", "Softmax of the same scores", bind_nodes([softmax], {}, _SCORES, threads), False),
        _Contender("torch softmax", "softmax of a tensor", _in_torch(lambda rows: rows.softmax(-1)), False),
    ]
    shown = f"entmax, alpha = {_ALPHA}" if use == "entmax" else use if k is None else f"{use}, k = {k}"
    return _Subject(
        shown, lambda random: {"scores": random.standard_normal((batch, scores), np.float32)}, exact, contenders
    )


def _attention(name: str, batch: int, positions: int, random: np.random.Generator) -> _Subject:
    """Return attention in inference."""
    alpha, shape = _ALPHAS[name], (batch, positions, _NUM_HEADS, _WIDTH)

    def draw(random: np.random.Generator, factor: float = 1.0) -> Feeds:
        scales = {"query": np.float32(factor), "key": np.float32(1), "value": np.float32(1)}
        return {each: scale * random.standard_normal(shape, np.float32) for each, scale in scales.items()}

    def exact(feeds: Feeds) -> tuple[Tensor, Tensor]:
        query, key, value = (each.double() for each in _positions_second(feeds))
        probabilities = entmax((query @ key.transpose(-1, -2)) / _WIDTH**0.5, alpha)
        return probabilities @ value, probabilities

    factor = _factor(lambda factor: exact(draw(np.random.default_rng(0), factor))[1])
    contenders = [
        _Contender("fused kernel", "attention of edge_embed", _in_torch(lambda q, k, v: attention(q, k, v, alpha)[0])),
        _Contender("unfused", "matmul, the function of edge_embed, matmul", _in_torch(_steps(name))),
        _Contender(
            "torch SDPA", "scaled_dot_product_attention, softmax", _in_torch(F.scaled_dot_product_attention), False
        ),
        _Contender("torch softmax", "matmul, softmax, matmul", _in_torch(_steps("softmax")), False),
    ]
    shown = f"{name}, alpha = {_ALPHA}" if name == "entmax" else name
    return _Subject(shown, lambda random: draw(random, factor), exact, contenders)


def _steps(name: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def steps(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = (query / _WIDTH**0.5) @ key.transpose(-1, -2)  # [B, H, T, S]
        return (scores.softmax(-1) if name == "softmax" else entmax(scores, _ALPHAS[name])) @ value

    return steps


def _factor(probabilities: Callable[[float], Tensor]) -> float:
    """Return the factor of the queries by which the wanted share of probabilities is zero."""
    low, high = 0.0, 64.0
    for _ in range(12):
        middle = (low + high) / 2
        is_below = float((probabilities(middle) == 0).double().mean()) < _ZEROS
        low, high = (middle, high) if is_below else (low, middle)
    return high


def _positions_second(feeds: Feeds) -> tuple[Tensor, ...]:
    """Return tensors [B, H, T, d] as the projection of a layer lays them out."""
    return tuple(torch.from_numpy(each).transpose(1, 2) for each in feeds.values())


def _in_torch(call: Callable[..., Tensor]) -> Bind:
    def prepare(feeds: Feeds) -> tuple[Tensor, ...]:
        return _positions_second(feeds) if "query" in feeds else (torch.from_numpy(feeds["scores"]),)

    return lambda feeds, calls: FunctionCalls(prepare, call, feeds, calls)


def _measured(
    subject: _Subject, calls: int, rounds: int, batch: int, threads: int, random: np.random.Generator
) -> tuple[float, Figure, tuple[Figure, ...]]:
    """Return the share of zeros, our figure and those of the peers."""

    def draw() -> list[Feeds]:
        return [subject.draw(random) for _ in range(calls)]

    feeds = draw()
    bound: dict[str, Answering] = {each.name: each.bind(feeds[0], calls) for each in subject.contenders}
    expected, probabilities = subject.exact(feeds[-1])
    errors = {
        each.name: _error(bound[each.name], feeds, expected.numpy()) for each in subject.contenders if each.is_same
    }
    for name, error in errors.items():
        if not error <= _TOLERANCE:  # also fails NaN
            raise ParityError(
                f"{subject.activation}: {name}: got error {error:.0e}, expected at most {_TOLERANCE:.0e} of the largest"
            )
    times = time_rounds(bound, draw, rounds, _WARMUP, random, cpu_clock=cpu_clock(threads))
    of_ours = times[subject.contenders[0].name]
    ours, *peers = (
        figure_of(each.name, each.what, times[each.name], of_ours, batch, random, error=errors.get(each.name, math.nan))
        for each in subject.contenders
    )
    return float((probabilities == 0).double().mean()), ours, tuple(peers)


def _error(contender: Answering, feeds: Sequence[Feeds], expected: NDArray[np.float64]) -> float:
    contender.set_inputs(feeds)
    contender.run()
    (got,) = contender.results()
    return float(np.abs(got - expected).max() / np.abs(expected).max())
