"""Order of a table's rows if it differs from that of ids: the row of each id, a permutation.

    row(id) = stored_row(row_order[id])

The padding row keeps its place, row_order[padding_idx] = padding_idx, so the same number identifies the row of zeros at
every stage.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError

MAX_ORDERED_ROWS = 2**31 - 1
"""Largest number of rows for int32, the only index dtype that every runtime gathers with."""


def check_ordered_rows(num_embeddings: int) -> None:
    """Raise `BadInputError` for more rows than a stored order can have.

    Raises:
        BadInputError: The message gives both numbers.
    """
    if num_embeddings > MAX_ORDERED_ROWS:
        raise BadInputError(
            f"row_order: got {num_embeddings} rows, expected at most {MAX_ORDERED_ROWS}; leave it out and renumber ids"
        )


def checked_row_order(row_order: ArrayLike, num_embeddings: int, padding_idx: int | None) -> NDArray[np.int32]:
    """Check an order of rows, in a byte a row of memory beside the result.

    Args:
        row_order: Integers [n]: the row of each id.
        num_embeddings: Number of rows n.
        padding_idx: The row that must keep its place, or None.

    Returns:
        The order as int32, not copied if it is int32 already.

    Raises:
        BadInputError: It is not a permutation of 0 ... n - 1, n is too large for int32, or the padding row moves.
    """
    check_ordered_rows(num_embeddings)
    order: NDArray[Any] = np.asarray(row_order)
    if order.dtype.kind not in "iu" or order.shape != (num_embeddings,):
        raise BadInputError(
            f"row_order: got {order.dtype} {list(order.shape)}, expected integers [{num_embeddings}], a row for each id"
        )
    permutation = f"expected a permutation of 0 to {num_embeddings - 1}"
    outside = (order < 0) | (order >= num_embeddings)
    if outside.any():
        first = int(outside.argmax())
        raise BadInputError(f"row_order: got row {order[first]} for id {first}, {permutation}")
    reached = np.zeros(num_embeddings, bool)
    reached[order] = True
    if not reached.all():
        raise BadInputError(f"row_order: got no id with row {int(reached.argmin())}, {permutation}")
    if padding_idx is not None and order[padding_idx] != padding_idx:
        raise BadInputError(
            f"row_order: got row {order[padding_idx]} for padding_idx {padding_idx}, expected the same: the padding "
            "row keeps its place; give padding_idx to the function that makes the order"
        )
    return order.astype(np.int32, copy=False)
