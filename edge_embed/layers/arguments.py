"""Checks of numbers that users give to layers and fits."""

from numbers import Real
from operator import index
from typing import TypeGuard

import torch
from torch import Tensor

from edge_embed.errors import BadInputError

INTEGER_TYPES = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
_MOST = 1 << 40  # sizes beyond this overflow in torch before they fill the memory


def checked_count(name: str, count: object, least: int = 1) -> int:
    """Return the number; raise `BadInputError` unless it is an integer of Python or numpy and at least ``least``."""
    number = _integer(count)
    if number is None:
        raise BadInputError(f"{name} must be an integer, got {count!r:.80}")
    if number < least:
        raise BadInputError(f"{name} must be at least {least}, got {number}")
    if number > _MOST:
        raise BadInputError(f"{name} must be at most {_MOST}, got {number:.3g}")
    return number


def _integer(value: object) -> int | None:
    """Return the value as an ``int`` if it is an integer of Python or numpy, else None."""
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a real number, of Python or of numpy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def checked_counts(counts: object) -> Tensor:
    """Return the frequency of each token as float64 [n]; raise `BadInputError` unless they are finite numbers [n]."""
    try:
        given = torch.as_tensor(counts).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"counts: got {counts!r:.80}, expected a number for each token, [n]") from error
    if given.is_meta or given.layout != torch.strided:
        kind = "meta" if given.is_meta else str(given.layout).removeprefix("torch.")
        raise BadInputError(f"counts: got a {kind} tensor, expected numbers in memory, [n]")
    if given.is_complex() or given.ndim != 1 or not len(given):
        raise BadInputError(f"counts: got {given.dtype} {list(given.shape)}, expected a number for each token, [n]")
    if not (finite := given.isfinite()).all():
        token = int((~finite).nonzero()[0])
        raise BadInputError(f"counts: got {float(given[token])} for token {token}, expected finite numbers")
    return given.double().cpu()


def checked_float_type(dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype, by default torch's own; raise `BadInputError` unless it is a float type."""
    dtype = dtype or torch.get_default_dtype()
    if not dtype.is_floating_point:
        raise BadInputError(f"dtype must be a float type, got {dtype}")
    return dtype


def checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    """Return the padding row counted from 0; negative ids count from the end, as for ``nn.Embedding``."""
    if padding_idx is None:
        return None
    row = _integer(padding_idx)
    if row is None:
        raise BadInputError(f"padding_idx must be an integer or None, got {padding_idx!r:.80}")
    if not -num_embeddings <= row < num_embeddings:
        raise BadInputError(f"padding_idx {row} is outside a table of {num_embeddings} rows")
    return row % num_embeddings
