"""Inputs and outputs of a model with a cache: keys and values of earlier tokens, under the names that optimum gives."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from edge_embed.program.archive_extras import identifier_of
from edge_embed.program.program import Program

BATCH = "batch_size"
PARTS = ("key", "value")
Pairs = Sequence[tuple[Tensor, Tensor]]  # the keys and values of each layer


@dataclass(frozen=True)
class CachedForm:
    """Inputs and outputs of a model with a cache.

    Attributes:
        examples: one tensor for each input, by its name in the traced signature.
        dimensions: names of dynamic dimensions, by input and position.
        inputs: name of each input in files, by its name in the traced signature.
        outputs: names of the outputs.
        check: raises `BadInputError` for a program that returns other logits than the model.
    """

    examples: Mapping[str, Tensor]
    dimensions: Mapping[str, Mapping[int, str]]
    inputs: Mapping[str, str]
    outputs: Sequence[str]
    check: Callable[[Program], None] = lambda _: None


@dataclass(frozen=True)
class State:
    """Keys or values of one layer: an example [batch, h, length, size] and the name of the length."""

    example: Tensor
    length: str


def cached_form(
    ids: Mapping[str, Tensor],
    lengths: Mapping[str, str],
    states: Mapping[str, State],
    check: Callable[[Program], None] = lambda _: None,
) -> CachedForm:
    """Return the form whose inputs are ids and masks [batch, length], then states.

    Args:
        ids: example of each input but the states.
        lengths: name of the length of each of them.
        states: the states by name, such as ``0.key``.
        check: as in the form.
    """
    spelled = {identifier_of(f"past_key_values.{name}"): name for name in states}
    return CachedForm(
        {**ids, **{argument: states[name].example for argument, name in spelled.items()}},
        {name: {0: BATCH, 1: length} for name, length in lengths.items()}
        | {argument: {0: BATCH, 2: states[name].length} for argument, name in spelled.items()},
        {argument: f"past_key_values.{name}" for argument, name in spelled.items()},
        ["logits", *(f"present.{name}" for name in states)],
        check,
    )


def with_named_arguments(forward: Callable[..., Any], names: Sequence[str]) -> Any:
    """Return a function of tensors only, whose arguments have these names."""

    def named(*given: Tensor, **others: Tensor) -> Any:
        return forward(*given, *(others[name] for name in names[len(given) :]))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return named


def filled(states: Sequence[Tensor]) -> Any:
    """Return a cache of keys and values in turn; its own methods would concatenate each with an empty tensor."""
    from transformers import cache_utils  # noqa: PLC0415

    cache = cache_utils.DynamicCache()
    for keys, values in zip(states[::2], states[1::2], strict=True):
        layer: Any = cache_utils.DynamicLayer()  # type: ignore[no-untyped-call]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def pairs_in(cache: Any) -> Pairs:
    """Return the keys and values of each layer of a cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]
