"""Decoder with a cache: keys and values of earlier tokens as inputs, those of all tokens as outputs.

Inputs and outputs have the names that optimum gives them: ``input_ids``, ``attention_mask`` over earlier and new
tokens, ``past_key_values.0.key``, ``present.0.key``. The only logits are those of the last position. Positions are
computed from the mask, so rows of different lengths are padded on the left.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.program.archive_extras import identifier_of

_BATCH, _NEW, _PAST = "batch_size", "sequence_length", "past_sequence_length"
_PAST_TOKENS = 5  # of the example
_IDS, _MASK = "input_ids", "attention_mask"
_PARTS = ("key", "value")


@dataclass(frozen=True)
class CachedForm:
    """Inputs and outputs of a decoder with a cache.

    Attributes:
        examples: one tensor for each input, by its name in the traced signature.
        dimensions: names of dynamic dimensions, by input and position.
        inputs: name of each input in files, by its name in the traced signature.
        outputs: names of the outputs.
    """

    examples: Mapping[str, Tensor]
    dimensions: Mapping[str, Mapping[int, str]]
    inputs: Mapping[str, str]
    outputs: Sequence[str]


def with_cache(model: Any, ids: Tensor) -> CachedForm | None:
    """Give a model a ``forward`` with a cache; return None, and leave the model unchanged, if it has no such cache.

    Args:
        model: a module of transformers in eval mode.
        ids: example ids [batch, tokens], with more than five tokens.
    """
    accepted = inspect.signature(model.forward).parameters
    if not model.can_generate() or model.config.is_encoder_decoder or "past_key_values" not in accepted:
        return None
    past = _past(model, ids[:, :_PAST_TOKENS])
    if past is None:
        return None
    states = {f"{at}.{part}": state for at, pair in enumerate(past) for part, state in zip(_PARTS, pair, strict=True)}
    new = ids[:, _PAST_TOKENS:]
    examples = {_IDS: new, _MASK: torch.ones_like(ids)}
    dimensions = {_IDS: {0: _BATCH, 1: _NEW}, _MASK: {0: _BATCH, 1: f"{_PAST} + {_NEW}"}}
    inputs = {}
    for name, state in states.items():
        spelled = f"past_key_values.{name}"
        argument = identifier_of(spelled)
        inputs[argument] = spelled
        examples[argument], dimensions[argument] = state, {0: _BATCH, 2: _PAST}
    model.forward = _forward(model.forward, accepted, list(examples))
    return CachedForm(examples, dimensions, inputs, ["logits", *(f"present.{name}" for name in states)])


def _past(model: nn.Module, ids: Tensor) -> list[tuple[Tensor, Tensor]] | None:
    """Return the keys and values of each layer for some ids; None if the model keeps other states, or none."""
    from transformers import cache_utils  # noqa: PLC0415

    with torch.no_grad():
        cache = getattr(model(input_ids=ids, use_cache=True), "past_key_values", None)
        kinds = (cache_utils.DynamicLayer, cache_utils.DynamicSlidingWindowLayer)
        if type(cache) is not cache_utils.DynamicCache or not all(type(layer) in kinds for layer in cache.layers):
            return None
        # Without a configuration, layers with a window keep all states too; the mask selects those in the window.
        whole: Any = cache_utils.DynamicCache()
        model(input_ids=ids, use_cache=True, past_key_values=whole)
    return [(layer.keys, layer.values) for layer in whole.layers]


def _forward(forward: Any, accepted: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return a function of tensors only, with named arguments."""

    def cached(*given: Tensor) -> tuple[Tensor, ...]:
        ids, mask, *states = given
        cache = _filled(states)
        more: dict[str, Any] = {}
        if "position_ids" in accepted:
            more["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, mask.shape[1] - ids.shape[1] :]
        if "logits_to_keep" in accepted:
            more["logits_to_keep"] = 1
        found = forward(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **more)
        return found.logits[:, -1:], *(state for layer in cache.layers for state in (layer.keys, layer.values))

    def named(*given: Tensor, **others: Tensor) -> tuple[Tensor, ...]:
        return cached(*given, *(others[name] for name in names[len(given) :]))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return named


def _filled(states: Sequence[Tensor]) -> Any:
    """Return a cache of these states; its own methods would concatenate each with an empty tensor."""
    from transformers import cache_utils  # noqa: PLC0415

    cache = cache_utils.DynamicCache()
    for keys, values in zip(states[::2], states[1::2], strict=True):
        layer: Any = cache_utils.DynamicLayer()  # type: ignore[no-untyped-call]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache
