"""Checks of ids and of the padding row for every packed form."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError, IdOutOfRangeError


def checked_ids(ids: ArrayLike, num_embeddings: int) -> NDArray[np.intp]:
    """Check ids and return them as indices.

    Args:
        ids: Integers of any dtype and shape, including a scalar and an empty array.
        num_embeddings: Number of rows n.

    Returns:
        The same ids, same shape.

    Raises:
        BadInputError: The ids are not integers. An empty list is not integer either: use ``np.array([], int)``.
        IdOutOfRangeError: An id is negative or at least n. Negative ids do not wrap around.
    """
    array = np.asarray(ids)
    if not np.issubdtype(array.dtype, np.integer):
        raise BadInputError(f"ids: got dtype {array.dtype}, expected integers; try .astype(numpy.int64)")
    outside = (array < 0) | (array >= num_embeddings)
    if outside.any():
        where = tuple(map(int, np.argwhere(outside)[0]))
        place = f" at position {where[0] if len(where) == 1 else where}" if where else ""
        bound = f"expected 0 to {num_embeddings - 1} (the table has {num_embeddings} rows)"
        raise IdOutOfRangeError(f"ids: got id {array[where]}{place}, {bound}")
    return array.astype(np.intp, copy=False)


def check_padding_idx(padding_idx: object, num_embeddings: int) -> None:
    """Raise `BadInputError` unless the padding row is a row of the table or None.

    Raises:
        BadInputError: It is neither None nor an int in 0 ... n - 1.
    """
    if padding_idx is None:
        return
    if type(padding_idx) is not int or not 0 <= padding_idx < num_embeddings:
        raise BadInputError(f"padding_idx: got {padding_idx!r:.80}, expected none or 0 to {num_embeddings - 1}")
