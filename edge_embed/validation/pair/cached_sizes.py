"""Sizes of decoders that receive the keys and values of earlier tokens.

    past + sequence      a name with a plus is the sum of the sizes that it names, as optimum names the mask's length
    total_X_length       past_sequence_length + sequence_length, as the model builder of ONNX Runtime GenAI names it
    past_sliding_length  length of the buffers of layers with a window, at least that of the window

Attention kernels accept three kinds of calls: a prompt without earlier tokens, one more token, and several more tokens
of a batch of one. A model with encoder and decoder has two pairs of lengths, and its next token comes without a source.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from edge_embed.program import size_sums
from edge_embed.program.encoder_lengths import PAST_SOURCE, PAST_TARGET, SOURCE, TARGET
from edge_embed.program.program import ProgramInput, Sizes

_PAST = re.compile(r"past_sequence_length|past")
_BUFFER = re.compile(r"(past|total)_sliding_length")
_TOTAL = re.compile(r"total_\w*length")
_NEW = ("sequence_length", "sequence")
STATE_WIDTHS = (64, 128, 32, 96, 80, 256)  # of keys and values in most decoders


def summed(sizes: Sizes) -> dict[str, int]:
    """Return sizes in which sums have their values."""
    return size_sums.summed(sizes, _terms)


def sums_in(names: Iterable[str]) -> set[str]:
    """Return the names of sizes that are sums of others."""
    every = tuple(names)
    return {name for name in every if _terms(name, every)}


def is_cached(names: Iterable[str]) -> bool:
    """Return whether the sizes are those of a decoder with keys and values of earlier tokens."""
    return any(_PAST.fullmatch(name) or is_buffer(name) for name in names)


def is_buffer(name: str) -> bool:
    """Return whether a size is the length of a buffer of a layer with a window."""
    return bool(_BUFFER.fullmatch(name))


def cached_steps(sizes: Sizes) -> Iterator[dict[str, int]]:
    """Yield the sizes of a prompt, of one more token, and of more tokens of one sequence; none for other models."""
    past, new = _past(sizes), _new(sizes)
    batch = {name: 1 for name in sizes if "batch" in name}
    one_more: dict[str, int]
    if sizes.keys() >= {SOURCE, PAST_SOURCE, TARGET, PAST_TARGET}:
        past, one_more = [PAST_SOURCE, PAST_TARGET], {SOURCE: 0, TARGET: 1}
    elif past and new is not None:
        one_more = {new: 1}
    else:
        return
    for changed in (dict.fromkeys(past, 0), one_more, batch):
        yield summed({**sizes, **changed})


def prompt_sizes(sizes: Sizes, tokens: int, batch: int = 1, past: int = 0) -> dict[str, int] | None:
    """Return the sizes of prompts of some tokens behind earlier ones; None if no size is a number of tokens."""
    new = _new(sizes)
    if new is None:
        return None
    rows = {name: batch for name in sizes if "batch" in name}
    return summed({**sizes, **rows, **dict.fromkeys(_past(sizes), past), new: tokens})


def with_state_sizes(inputs: Sequence[ProgramInput], example: Sequence[Any]) -> tuple[ProgramInput, ...]:
    """Return inputs in which sizes of keys and values that a decoder fixes without declaring them are numbers.

    These are their width, and the length of buffers of layers with a window.

    Args:
        inputs: the declared inputs.
        example: inputs that the model runs on.
    """
    names = {size for each in inputs for size in each.shape if isinstance(size, str)}
    if not is_cached(names):
        return tuple(inputs)
    of_ids = {size for each in inputs if not each.dtype.is_floating_point for size in each.shape}
    varying = of_ids | set(_past(names)) | sums_in(names)
    return tuple(
        replace(each, shape=tuple(_fixed(size, at, varying) for size, at in zip(each.shape, value.shape, strict=True)))
        for each, value in zip(inputs, example, strict=True)
    )


def _fixed(size: int | str, example: int, varying: set[int | str]) -> int | str:
    return size if size in varying else int(example)


def _terms(name: str, names: Collection[str]) -> list[str]:
    """Return the sizes that a size is the sum of, or none."""
    new = _new(names)
    if _TOTAL.fullmatch(name) and new is not None:
        return [*_past(names)[:1], new]
    return size_sums.named_terms(name, names)


def _past(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if _PAST.fullmatch(name))


def _new(names: Collection[str]) -> str | None:
    return next((name for name in _NEW if name in names), None)
