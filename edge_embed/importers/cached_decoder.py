"""Decoder with a cache: keys and values of earlier tokens as inputs, those of all tokens as outputs.

Inputs and outputs have the names that optimum gives them: ``input_ids``, ``attention_mask`` over earlier and new
tokens, ``past_key_values.0.key``, ``present.0.key``. The only logits are those of the last position. Positions are
computed from the mask, so rows of different lengths are padded on the left.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.importers.cached_form import (
    PARTS,
    CachedForm,
    Pairs,
    State,
    cached_form,
    filled,
    pairs_in,
    with_named_arguments,
)

_NEW, _PAST = "sequence_length", "past_sequence_length"
_PAST_TOKENS = 5  # of the example
_IDS, _MASK = "input_ids", "attention_mask"


def with_cache(model: Any, ids: Tensor) -> CachedForm | None:
    """Give a model a ``forward`` with a cache; return None, and leave the model unchanged, if it has no such cache.

    Args:
        model: a module of transformers in eval mode, without an encoder.
        ids: example ids [batch, tokens], with more than five tokens.
    """
    accepted = inspect.signature(model.forward).parameters
    if not model.can_generate() or "past_key_values" not in accepted:
        return None
    past = _past(model, ids[:, :_PAST_TOKENS])
    if past is None:
        return None
    states = {
        f"{at}.{part}": State(state, _PAST)
        for at, pair in enumerate(past)
        for part, state in zip(PARTS, pair, strict=True)
    }
    examples = {_IDS: ids[:, _PAST_TOKENS:], _MASK: torch.ones_like(ids)}
    form = cached_form(examples, {_IDS: _NEW, _MASK: f"{_PAST} + {_NEW}"}, states)
    model.forward = with_named_arguments(_forward(model.forward, accepted), [*form.examples])
    return form


def _past(model: nn.Module, ids: Tensor) -> Pairs | None:
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
    return pairs_in(whole)


def _forward(forward: Any, accepted: Mapping[str, Any]) -> Any:
    """Return a function of tensors only."""

    def cached(*given: Tensor) -> tuple[Tensor, ...]:
        ids, mask, *states = given
        cache = filled(states)
        more: dict[str, Any] = {}
        if "position_ids" in accepted:
            more["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, mask.shape[1] - ids.shape[1] :]
        if "logits_to_keep" in accepted:
            more["logits_to_keep"] = 1
        found = forward(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **more)
        return found.logits[:, -1:], *(state for pair in pairs_in(cache) for state in pair)

    return cached
