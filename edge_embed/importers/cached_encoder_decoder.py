"""Encoder and decoder with a cache, as one graph without branches.

The first call gets the source as ``input_ids``, and no earlier keys and values. Each later call gets no source: the
encoder then computes nothing, and ``past_key_values.0.encoder.key`` passes through to ``present.0.encoder.key``. So the
encoder runs once, and its table of tokens, which most models tie to that of the decoder, is stored once.

Other names are those of optimum too: ``attention_mask`` over earlier and new tokens of the source,
``decoder_input_ids``, ``past_key_values.0.decoder.key``. The only logits are those of the last position.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError, one_line
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
from edge_embed.program.encoder_lengths import PAST_SOURCE, PAST_TARGET, SOURCE, TARGET
from edge_embed.program.program import Program
from edge_embed.program.size_sums import PLUS
from edge_embed.report.beside_limit import beside_limit

_IDS, _MASK, _DECODER_IDS = "input_ids", "attention_mask", "decoder_input_ids"
_PAST_TOKENS = 5  # of the example's source
_PAST_NEW = 2  # of its decoder
_OF_A_LAYER = 4  # states
_TOLERANCE = 1e-3  # of the largest logit
_REMEDY = "give --no-cache (cache=False), which computes all tokens in each call"


def with_encoder_cache(model: Any, examples: Mapping[str, Tensor]) -> CachedForm | None:
    """Give a model with encoder and decoder a ``forward`` with a cache; return None for a model without logits.

    Args:
        model: a module of transformers in eval mode.
        examples: ``input_ids`` with more than five tokens, and ``decoder_input_ids`` with more than two.

    Raises:
        BadInputError: the model does not keep keys and values of both kinds.
    """
    if not model.can_generate():
        return None
    ids, new = examples[_IDS], examples[_DECODER_IDS]
    with torch.no_grad(), _refused(model):
        past = _past(model, ids[:, :_PAST_TOKENS], new[:, :_PAST_NEW])
        mask = torch.ones_like(ids)
        mask[-1, -2:] = 0  # padding
        given = {_IDS: ids, _MASK: mask, _DECODER_IDS: new}
        expected = model(**given).logits[:, -1:]
    states = {
        f"{at}.{part}.{which}": State(state, length)
        for at, layer in enumerate(past)
        for part, length, pair in zip(("decoder", "encoder"), (PAST_TARGET, PAST_SOURCE), layer, strict=True)
        for which, state in zip(PARTS, pair, strict=True)
    }

    def check(program: Program) -> None:
        with _refused(model):
            _check_steps(program, given, expected)

    form = cached_form(
        {_IDS: ids[:, _PAST_TOKENS:], _MASK: torch.ones_like(ids), _DECODER_IDS: new[:, _PAST_NEW:]},
        {_IDS: SOURCE, _MASK: f"{PAST_SOURCE}{PLUS}{SOURCE}", _DECODER_IDS: TARGET},
        states,
        check,
    )
    model.forward = with_named_arguments(_forward(model), [*form.examples])
    return form


@contextmanager
def _refused(model: Any) -> Iterator[None]:
    """Name the model and the remedy in an error; the library raises errors of any kind."""
    try:
        yield
    except Exception as error:
        reason = error if isinstance(error, BadInputError) else f"got {one_line(error)}"
        kind = f"{type(model).__name__} with keys and values of earlier tokens"
        raise BadInputError(f"{kind}: {reason}; {_REMEDY}") from error


def _past(model: Any, ids: Tensor, new: Tensor) -> list[Pairs]:
    """Return the keys and values of decoder and encoder of each layer for some ids."""
    from transformers import cache_utils  # noqa: PLC0415

    cache = _empty_cache()
    outputs = model(input_ids=ids, decoder_input_ids=new, past_key_values=cache, use_cache=True)
    found = getattr(outputs, "past_key_values", None)
    both: list[Pairs] = []
    if type(found) is cache_utils.EncoderDecoderCache:
        both = [pairs_in(each) for each in (found.self_attention_cache, found.cross_attention_cache)]
    if not any(both) or len(both[0]) != len(both[1]):
        got = " and ".join(f"{len(pairs)} layers" for pairs in both) or f"a {type(found).__name__}"
        raise BadInputError(f"got {got} as past_key_values, expected those of decoder and encoder in each layer")
    return [*zip(*both, strict=True)]


def _empty_cache() -> Any:
    from transformers import cache_utils  # noqa: PLC0415

    return cache_utils.EncoderDecoderCache(cache_utils.DynamicCache(), cache_utils.DynamicCache())


def _forward(model: Any) -> Any:
    """Return a function of tensors only."""
    forward, encoder = model.forward, model.get_encoder()

    def cached(*given: Tensor) -> tuple[Tensor, ...]:
        ids, mask, new, *states = given
        cache = _empty_cache()
        cache.self_attention_cache = filled([state for at, state in enumerate(states) if at % _OF_A_LAYER < len(PARTS)])
        # Layers append the keys and values of the new source to those of the earlier one.
        cache.cross_attention_cache = filled(
            [state for at, state in enumerate(states) if at % _OF_A_LAYER >= len(PARTS)]
        )
        source = encoder(input_ids=ids, attention_mask=mask[:, mask.shape[1] - ids.shape[1] :])
        found = forward(
            encoder_outputs=source,
            attention_mask=_added(mask, source[0]),
            decoder_input_ids=new,
            past_key_values=cache,
            use_cache=True,
        )
        both = zip(pairs_in(cache.self_attention_cache), pairs_in(cache.cross_attention_cache), strict=True)
        return found.logits[:, -1:], *(state for layer in both for pair in layer for state in pair)

    return cached


def _added(mask: Tensor, states: Tensor) -> Tensor:
    """Return a mask as summands of scores; a mask of ones and zeros must be as long as the new source."""
    return (1 - mask[:, None, None, :].to(states.dtype)) * torch.finfo(states.dtype).min


def _check_steps(program: Program, given: Mapping[str, Tensor], expected: Tensor) -> None:
    """Raise if two calls, the second without a source, do not give the logits of one call without a cache."""
    ids, mask, new = given[_IDS], given[_MASK], given[_DECODER_IDS]
    empty = [state[:, :, :0] for state in program.example_inputs[len(given) :]]
    _, *states = program.run(ids, mask, new[:, :_PAST_NEW], *empty)
    logits, *_ = program.run(ids[:, :0], mask, new[:, _PAST_NEW:], *states)
    most = _TOLERANCE * float(expected.abs().max())
    if not (difference := float((logits - expected).abs().max())) <= most:
        got, limit = beside_limit(difference, most, digits=3)
        raise BadInputError(f"got logits that differ by {got} from those of one call, expected at most {limit}")
