"""Analysis of attention heads as in "Adaptively Sparse Transformers": alphas, density, diversity and roles.

    density = share of probabilities above 0 among the keys that a query may attend to
    diversity = H(1/n sum_h p_h) - 1/n sum_h H(p_h)        generalised Jensen-Shannon divergence of n attention heads,
                                                           in nats: 0 for equal ones, ln n for disjoint ones
    position score = mean of p[i, i + offset]              -1: the previous position
    merging score = mean of the probability of the other sub-words of the query's word

Each is a mean over queries. Queries without probabilities above 0 do not count: their keys are all masked.

Source: Correia, Niculae and Martins, EMNLP 2019, section 5 and appendix.

Shapes: B sequences, H attention heads, T queries, S keys; attention of a layer is [B, H, T, S].
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from edge_embed.errors import BadInputError

_LOGIT = "alpha_logit"


class FoundHead(NamedTuple):
    """An attention head with a role.

    Attributes:
        layer: name of the layer.
        head: number of the attention head.
        score: 0 to 1.
    """

    layer: str
    head: int
    score: float


def learned_alphas(model: nn.Module) -> dict[str, NDArray[np.float64]]:
    """Return the alphas [H] of every layer that learns them, by name; ``np.histogram`` counts them.

    Layers are `SparseMultiheadAttention`, `Entmax`, and those of `edge_embed.transformers.attention.learn_alphas`.
    """
    found = {}
    for name, logit in model.named_parameters():
        if name.rpartition(".")[2] == _LOGIT:
            layer = name.removesuffix(_LOGIT).removesuffix(".").removesuffix("activation").removesuffix(".")
            found[layer] = (1 + logit.detach().double().sigmoid()).cpu().numpy()
    return found


class AlphaTrajectories:
    """Alphas of a model over training: call ``record(step)`` now and then.

    Attributes:
        steps: the recorded steps.
        alphas: arrays [steps, H] by layer.

    Raises:
        BadInputError: if the model learns no alphas.
    """

    def __init__(self, model: nn.Module) -> None:
        if not learned_alphas(model):
            raise BadInputError(f"model: got {type(model).__name__} without learned alphas: use activation='learned'")
        self._model = model
        self.steps: list[int] = []
        self._recorded: list[dict[str, NDArray[np.float64]]] = []

    def record(self, step: int) -> None:
        """Keep the present alphas.

        Raises:
            BadInputError: if the layers that learn alphas are no longer those of the first record.
        """
        found = learned_alphas(self._model)
        if self._recorded and found.keys() != self._recorded[0].keys():
            expected = f"those of the first record, {list(self._recorded[0])}"
            raise BadInputError(f"model: got learned alphas of {list(found)!r:.200}, expected {expected:.200}")
        self.steps.append(step)
        self._recorded.append(found)

    @property
    def alphas(self) -> dict[str, NDArray[np.float64]]:
        """Arrays [steps, H] by layer."""
        return {name: np.stack([each[name] for each in self._recorded]) for name in (self._recorded or [{}])[0]}


@contextmanager
def recorded_attention(model: nn.Module) -> Iterator[dict[str, list[NDArray[np.float32]]]]:
    """Record the probabilities [B, H, T, S] of every call of `nn.MultiheadAttention` and `SparseMultiheadAttention`.

    The outputs of the model stay the same. transformers models return theirs with ``output_attentions=True``.

    Yields:
        Arrays by layer, one for each call.

    Raises:
        BadInputError: if the model has no such layer.
    """
    layers = {name: each for name, each in model.named_modules() if isinstance(each, nn.MultiheadAttention)}
    if not layers:
        raise BadInputError(f"model: got {type(model).__name__} without nn.MultiheadAttention")
    found: dict[str, list[NDArray[np.float32]]] = {name: [] for name in layers}
    hooks = []
    for name, layer in layers.items():
        recorder = _Recorder(found[name])
        hooks.append(layer.register_forward_pre_hook(recorder.before, with_kwargs=True))
        hooks.append(layer.register_forward_hook(recorder.after, prepend=True))  # ends what began last
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


class _Recorder:
    """Hooks that ask a layer for the probabilities of all attention heads, and return what the caller asked for."""

    _NEED, _AVERAGE = 4, 6  # positions of the arguments

    def __init__(self, to: list[NDArray[np.float32]]) -> None:
        self._to = to
        self._asked = (True, True)

    def before(self, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any]:
        asked = []
        for place, name in ((self._NEED, "need_weights"), (self._AVERAGE, "average_attn_weights")):
            asked.append(arguments[place] if len(arguments) > place else options.get(name, True))
        self._asked = (asked[0], asked[1])
        placed = list(arguments)
        for place, name, value in ((self._NEED, "need_weights", True), (self._AVERAGE, "average_attn_weights", False)):
            if len(placed) > place:
                placed[place] = value
            else:
                options = {**options, name: value}
        return tuple(placed), options

    def after(self, _: nn.Module, arguments: Any, output: Any) -> Any:
        out, weights = output  # [B, H, T, S], or [H, T, S]
        each = weights.detach().float().cpu().numpy()
        self._to.append(each if each.ndim == 4 else each[None])
        need, average = self._asked
        return out, (weights.mean(-3) if average else weights) if need else None


def density(attention: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the share of probabilities above 0 of each attention head [H]; its mean is that of the layer.

    Args:
        attention: probabilities [B, H, T, S].
        mask: bool, broadcasts to [B, H, T, S]: True for keys that a query may attend to. All by default.
    """
    p, allowed = _checked(attention), _allowed(attention, mask)
    counted = _attends(p)
    shares = ((p > 0) & allowed).sum(-1) / np.maximum(1, allowed.sum(-1))
    return _mean_of_queries(shares, counted)


def diversity(attention: ArrayLike) -> float:
    """Return the generalised Jensen-Shannon divergence of the attention heads of a layer, in nats."""
    p = _checked(attention)
    counted = _attends(p).all(1)  # [B, T]
    divergence = _entropy(p.mean(1)) - _entropy(p).mean(1)  # [B, T]
    return float(divergence[counted].mean()) if counted.any() else float("nan")


def position_scores(attention: ArrayLike, offset: int = -1) -> NDArray[np.float64]:
    """Return for each attention head [H] the mean probability of the key at ``offset`` from the query.

    Queries without such a key do not count.
    """
    p = _self_attention(attention)
    length = p.shape[-1]
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise BadInputError(f"offset: got {offset!r:.80}, expected an integer")
    if abs(offset) >= length:
        raise BadInputError(f"offset: got {offset}, expected less than the {length} positions of the attention")
    queries = np.arange(max(0, -offset), length - max(0, offset))
    return _mean_of_queries(p[:, :, queries, queries + offset], _attends(p)[:, :, queries])


def merging_scores(attention: ArrayLike, words: ArrayLike) -> NDArray[np.float64]:
    """Return for each attention head [H] the mean probability of the other sub-words of the query's word.

    Args:
        attention: probabilities of self-attention [B, H, T, T].
        words: number of the word of each token [B, T]; negative for tokens of no word. Words of one token do not count.
            ``[-1 if i is None else i for i in encoding.word_ids()]`` of a fast tokenizer of transformers is a row.
    """
    p, of = _self_attention(attention), np.asarray(words)
    if of.shape != (len(p), p.shape[-1]) or not np.issubdtype(of.dtype, np.integer):
        expected = f"integers {[len(p), p.shape[-1]]}, the word of each token"
        raise BadInputError(f"words: got {of.dtype} {list(of.shape)}, expected {expected}")
    same = (of[:, :, None] == of[:, None, :]) & (of >= 0)[:, :, None] & ~np.eye(p.shape[-1], dtype=bool)  # [B, T, T]
    counted = same.any(-1)[:, None] & _attends(p)  # [B, H, T]
    if not same.any():
        raise BadInputError("words: got no word of several tokens, expected at least one")
    return _mean_of_queries((p * same[:, None]).sum(-1), counted)


def find_position_heads(
    attentions: Mapping[str, ArrayLike], offset: int = -1, at_least: float = 0.5
) -> list[FoundHead]:
    """Return the attention heads of self-attention whose `position_scores` reach a limit, best first."""
    return _best({name: position_scores(each, offset) for name, each in attentions.items()}, at_least)


def find_merging_heads(attentions: Mapping[str, ArrayLike], words: ArrayLike, at_least: float = 0.5) -> list[FoundHead]:
    """Return the attention heads of self-attention whose `merging_scores` reach a limit, best first."""
    return _best({name: merging_scores(each, words) for name, each in attentions.items()}, at_least)


def _best(scores: Mapping[str, NDArray[np.float64]], at_least: float) -> list[FoundHead]:
    found = [
        FoundHead(name, head, float(s)) for name, of in scores.items() for head, s in enumerate(of) if s >= at_least
    ]
    return sorted(found, key=lambda head: -head.score)


def as_numbers(attention: ArrayLike) -> NDArray[np.float64]:
    """Return probabilities as float64, from a tensor of any device and dtype too.

    Raises:
        BadInputError: for anything but numbers.
    """
    given = attention.detach().double().cpu() if isinstance(attention, torch.Tensor) else attention
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise BadInputError(f"attention: got {attention!r:.80}, expected an array of probabilities") from None


def _checked(attention: ArrayLike) -> NDArray[np.float64]:
    p = as_numbers(attention)
    if p.ndim != 4 or not ((p >= 0) & (p < np.inf)).all():
        problem = f"shape {list(p.shape)}" if p.ndim != 4 else "negative numbers, infinity or NaN"
        raise BadInputError(f"attention: got {problem}, expected probabilities [B, H, T, S]")
    return p


def _self_attention(attention: ArrayLike) -> NDArray[np.float64]:
    p = _checked(attention)
    if p.shape[2] != p.shape[3]:
        raise BadInputError(f"attention: got shape {list(p.shape)}, expected self-attention [B, H, T, T]")
    return p


def _allowed(attention: ArrayLike, mask: ArrayLike | None) -> NDArray[np.bool_]:
    shape = np.shape(_checked(attention))
    allowed = np.ones((), bool) if mask is None else np.asarray(mask)
    try:
        if allowed.dtype != bool:
            raise ValueError
        return np.broadcast_to(allowed, shape)
    except ValueError:
        expected = f"bool that broadcasts to {list(shape)}"
        raise BadInputError(f"mask: got {allowed.dtype} {list(allowed.shape)}, expected {expected}") from None


def _entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    return found


def _attends(p: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether queries have a probability above 0, [B, H, T]."""
    found: NDArray[np.bool_] = np.asarray((p > 0).any(-1))
    return found


def _mean_of_queries(values: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return means [H] of values [B, H, T] over the queries that count; NaN without any."""
    number = counted.sum((0, 2))
    means = (values * counted).sum((0, 2)) / np.maximum(1, number)
    return np.where(number > 0, means, np.nan)
