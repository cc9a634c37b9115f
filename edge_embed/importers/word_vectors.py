"""Results of readers: one table, dense or packed, and the tokens of its rows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.report.results.model_source import NO_FACTS, LeftOut, SourceFacts

_LOG = logging.getLogger(__name__)
_ROWS = 1 << 14  # rows at a time, which limits the memory beside a table
_SHOWN = 3
# Some GloVe files have a few tokens twice. A first column of numbers, or a class for each row, has many duplicates.
_FEW, _FEW_OF = 20, 1000


@dataclass(frozen=True)
class Vectors:
    """One dense table from a file.

    Attributes:
        table: [n, d] of floats; it may be mapped from the file.
        tokens: distinct token of each row; None if the file has none.
        name: name of the table in the model.
        source: file of the numbers.
        facts: decisions about the file, and its content that is left out.
    """

    table: Tensor
    tokens: Sequence[str] | None
    name: str
    source: Path
    facts: SourceFacts = NO_FACTS


@dataclass(frozen=True)
class PackedVectors:
    """One table from a file that stores it product-quantised.

    Attributes:
        table: table whose arrays may be mapped from the file.
        tokens: tokens of the first rows.
        name: name of the table in the model.
        source: file of the numbers.
        facts: decisions about the file, and its content that is left out.
    """

    table: PackedDPQ
    tokens: Sequence[str]
    name: str
    source: Path
    facts: SourceFacts = NO_FACTS


def plain_vectors(table: NDArray[np.float32], source: Path, remarks: Sequence[str] = ()) -> Vectors:
    """Return vectors without tokens.

    Args:
        table: [n, d].
        source: the file.
        remarks: decisions about the file.
    """
    return Vectors(torch.from_numpy(table), None, "vectors", source, SourceFacts(tuple(remarks)))


def unique_vectors(
    table: NDArray[np.float32],
    tokens: Sequence[str | None],
    source: Path,
    reading: Reading = AS_IT_SHOWS,
    remarks: Sequence[str] = (),
) -> Vectors:
    """Return vectors without rows that have no token or a token that occurred before, as gensim reads them.

    Args:
        table: [n, d]; its memory is reused.
        tokens: token of each row, None for a row that is left out.
        source: the file.
        reading: whether many such rows may be left out.
        remarks: decisions about the file.

    Raises:
        BadInputError: more rows than in real files would be left out without the user's option; or no row is left.
    """
    rows: dict[str, int] = {}
    for row, token in enumerate(tokens):
        if token is not None:
            rows.setdefault(token, row)
    if not rows:
        raise BadInputError("no row is left: all tokens are empty or not UTF-8")
    left_out = []
    broken = sum(token is None for token in tokens)
    if broken:
        left_out.append(LeftOut("rows", "their tokens are empty or not UTF-8", broken))
    if len(rows) + broken < len(tokens):
        left_out.append(_repeated(rows, tokens, source, reading))
    if left_out:
        kept = np.fromiter(rows.values(), np.int64, len(rows))
        for start in range(0, len(kept), _ROWS):  # a row is never written behind its source
            rows_kept = kept[start : start + _ROWS]
            table[start : start + len(rows_kept)] = table[rows_kept]
        table = table[: len(kept)]
    facts = SourceFacts(tuple(remarks), tuple(left_out))
    return Vectors(torch.from_numpy(table), list(rows), "vectors", source, facts)


def _repeated(rows: Mapping[str, int], tokens: Sequence[str | None], source: Path, reading: Reading) -> LeftOut:
    """Describe rows whose tokens occurred before; raise for many of them unless the user allowed it."""
    again = [token for row, token in enumerate(tokens) if token is not None and rows[token] != row]
    shown = ", ".join(f"{token!r:.80}" for token in again[:_SHOWN]) + (", ..." if len(again) > _SHOWN else "")
    if len(again) > max(_FEW, len(tokens) // _FEW_OF) and not reading.drop_duplicates:
        raise BadInputError(
            f"{len(again)} of {len(tokens)} rows repeat earlier tokens: {shown}: give --drop-duplicates to leave them "
            "out, or --no-tokens if rows have no tokens"
        )
    _LOG.warning("%s: %d rows left out, which repeat earlier tokens: %s", source, len(again), shown)
    return LeftOut("rows", f"they repeat earlier tokens: {shown}", len(again))


def check_finite(table: NDArray[np.float32] | Tensor, place: Callable[[int], str]) -> None:
    """Raise for rows that hold NaN or an infinity.

    Args:
        table: [n, d].
        place: function that returns the place of a row, for the message.

    Raises:
        BadInputError: the message names the place.
    """
    for start in range(0, len(table), _ROWS):
        block = torch.as_tensor(table[start : start + _ROWS])
        sound = torch.isfinite(block).all(dim=1)
        if not sound.all():
            row = start + int(sound.logical_not().nonzero()[0])
            raise BadInputError(
                f"{place(row)}: got NaN, an infinity or a number too large for its type, expected finite numbers: "
                "leave the row out"
            )
