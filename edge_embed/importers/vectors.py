"""What readers give: one table, dense or packed, and the tokens of its rows."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.packed.dpq import PackedDPQ

_LOG = logging.getLogger(__name__)
_ROWS = 1 << 14  # at once: what is made beside a table stays small
_SHOWN = 3


@dataclass(frozen=True)
class Vectors:
    """One dense table from a file.

    Attributes:
        table: [n, d], of floats; it may be mapped from the file.
        tokens: of each row, no two equal; None where the file has none.
        name: of the table in the model.
        source: the file that the numbers are in.
    """

    table: Tensor
    tokens: Sequence[str] | None
    name: str
    source: Path


@dataclass(frozen=True)
class PackedVectors:
    """One table from a file that holds it product-quantised.

    Attributes:
        table: its arrays may be mapped from the file.
        tokens: of the first rows.
        name: of the table in the model.
        source: the file that the numbers are in.
    """

    table: PackedDPQ
    tokens: Sequence[str]
    name: str
    source: Path


def unique_vectors(table: NDArray[np.float32], tokens: list[str], source: Path) -> Vectors:
    """Vectors without the rows of tokens that came before, as gensim reads them; a log line names such tokens.

    Args:
        table: [n, d]; its memory is used.
        tokens: of each row.
        source: the file.
    """
    rows: dict[str, int] = {}
    for row, token in enumerate(tokens):
        rows.setdefault(token, row)
    if len(rows) < len(tokens):
        again = [token for row, token in enumerate(tokens) if rows[token] != row]
        shown = ", ".join(f"{token!r:.80}" for token in again[:_SHOWN]) + (", ..." if len(again) > _SHOWN else "")
        _LOG.warning("%s: %d rows left out, whose tokens have one already: %s", source, len(again), shown)
        kept = np.fromiter(rows.values(), np.int64, len(rows))
        for start in range(0, len(kept), _ROWS):  # never to a place behind the one it comes from
            rows_kept = kept[start : start + _ROWS]
            table[start : start + len(rows_kept)] = table[rows_kept]
        table = table[: len(kept)]
    return Vectors(torch.from_numpy(table), list(rows), "vectors", source)


def check_finite(table: NDArray[np.float32] | Tensor, place: Callable[[int], str]) -> None:
    """Refuse rows that hold NaN or an infinity.

    Args:
        table: [n, d].
        place: where a row stands, for the message.

    Raises:
        BadInputError: names the place.
    """
    for start in range(0, len(table), _ROWS):
        block = torch.as_tensor(table[start : start + _ROWS])
        sound = torch.isfinite(block).all(dim=1)
        if not sound.all():
            row = start + int(sound.logical_not().nonzero()[0])
            raise BadInputError(
                f"{place(row)}: holds NaN, an infinity or a number too large for its type, expected finite numbers: "
                "leave the row out"
            )
