"""Frequencies of the rows of a table, as a user has them.

counts      numbers >= 0 [n]; relative frequencies f: count_i = f_i / (smallest f above 0), so that each is at least 1
ids         count_i = occurrences of i
"order"     count_i = n / (i + 1): Zipf's law for rows sorted by frequency, an assumption

Occurrences have a unit, because fits of tiers add 1/2 to each (`edge_embed.fitting.tier_weights`).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_counts

ORDER: Literal["order"] = "order"


@dataclass(frozen=True, eq=False)
class SeenIds:
    """Occurrences of ids in data.

    Attributes:
        occurrences: int64 [largest id + 1].
    """

    occurrences: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[Any]) -> "SeenIds":
        """Count ids of any shape.

        Raises:
            BadInputError: they are not integers from 0 on, or there are none.
        """
        if ids.dtype.kind not in "iu" or not ids.size:
            raise BadInputError(f"ids: got {ids.dtype} {[*ids.shape]}, expected integers, at least one")
        if ids.min() < 0:
            raise BadInputError(f"ids: got {ids.min()}, expected none below 0: leave out places without a token")
        if ids.max() >= 1 << 31:
            raise BadInputError(f"ids: got {ids.max()}, expected ids below 2**31")
        return cls(np.bincount(ids.reshape(-1).astype(np.int64)))


RowCounts = Tensor | SeenIds | Literal["order"]


def counts_of(given: RowCounts | None, num_embeddings: int) -> Tensor | None:
    """Return the frequency of each row, [n], or None without any.

    Raises:
        BadInputError: an id is no row of the table, or the text is unknown.
    """
    if isinstance(given, str):
        if given != ORDER:
            raise BadInputError(f"counts: got {given!r:.80}, expected numbers [n], or {ORDER!r} for rows in order")
        return num_embeddings / torch.arange(1, num_embeddings + 1, dtype=torch.float64)
    if not isinstance(given, SeenIds):
        return None if given is None else _occurrences(checked_counts(given))
    largest = len(given.occurrences) - 1
    if largest >= num_embeddings:
        expected = f"expected 0 to {num_embeddings - 1}: count ids of the same vocabulary"
        raise BadInputError(f"ids: got {largest}, {expected}")
    return torch.from_numpy(np.pad(given.occurrences, (0, num_embeddings - 1 - largest)))


def _occurrences(counts: Tensor) -> Tensor:
    """Return counts, of which relative ones are scaled until the rarest row that occurs has occurred once."""
    smallest = counts[counts > 0].min() if (counts > 0).any() else counts.new_ones(())
    precision = counts.max() * torch.finfo(counts.dtype).eps  # quotients stay finite
    least = torch.maximum(smallest, precision)
    return counts / least if least < 1 else counts
