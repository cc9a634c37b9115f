"""Tables of a study: the packed form of a layer, whose rows are read in blocks."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import row_blocks
from edge_embed.packed.packed_form import METHODS, PackedTable

_Form_co = TypeVar("_Form_co", bound=PackedTable, covariant=True)


@runtime_checkable
class Layer(Protocol[_Form_co]):
    """Embedding layer of this package."""

    def to_packed(self) -> _Form_co:
        """Return the packed form."""


def packed_form(table: Any) -> PackedTable:
    """Return the packed form of a layer, or the given one.

    Raises:
        BadInputError: if ``table`` is neither.
    """
    packed: PackedTable = table.to_packed() if isinstance(table, Layer) else table
    if not isinstance(packed, tuple(METHODS.values())):
        raise BadInputError(f"got {type(table).__name__}, expected an embedding layer of edge_embed or its packed form")
    return packed


def blocks_of_ids(packed: PackedTable, bits_per_row: int) -> Iterator[NDArray[np.int64]]:
    """Yield all ids without that of the padding row, in blocks."""
    for block in row_blocks(packed.num_embeddings, bits_per_row):
        ids = np.arange(block.start, block.stop)
        yield ids if packed.padding_idx is None else ids[ids != packed.padding_idx]
