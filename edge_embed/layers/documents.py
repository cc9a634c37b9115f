"""Batches of whole documents, given as ids, for counting statistics of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from edge_embed.errors import BadInputError, IdOutOfRangeError

Document = Tensor | Sequence[int] | np.ndarray[Any, np.dtype[Any]]

_BATCH_IDS = 1 << 20


class Batch(NamedTuple):
    """Concatenated ids of some documents, and for each id the number of its document: int64 [m] both."""

    ids: np.ndarray[Any, np.dtype[np.int64]]
    owners: np.ndarray[Any, np.dtype[np.int64]]


def batches(documents: Iterable[Document], num_embeddings: int) -> Iterator[Batch]:
    """Yield batches of about a million ids; a document is never split.

    Args:
        documents: ids of each text in its order, integers [m] from 0 to ``num_embeddings - 1``.
        num_embeddings: rows n of the table.

    Raises:
        BadInputError: for a document that is not a row of integers.
        IdOutOfRangeError: for an id outside the table.
    """
    held: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    total = 0
    for number, document in enumerate(documents):
        held.append(_checked(document, number, num_embeddings))
        total += len(held[-1])
        if total >= _BATCH_IDS:
            yield _joined(held)
            total, held = 0, []
    if held:
        yield _joined(held)


def _joined(held: list[np.ndarray[Any, np.dtype[np.int64]]]) -> Batch:
    owners = np.repeat(np.arange(len(held)), [len(ids) for ids in held])
    return Batch(np.concatenate(held), owners)


def _checked(document: Document, number: int, num_embeddings: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    try:
        ids = np.asarray(document.cpu() if isinstance(document, Tensor) else document)
    except ValueError as error:  # ragged rows
        raise BadInputError(f"document {number}: got {document!r:.80}, expected the ids of its tokens") from error
    if ids.size == 0:
        return np.zeros(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        got = f"got {ids.dtype} {list(ids.shape)}"
        raise BadInputError(f"document {number}: {got}, expected the ids of its tokens in order, integers [m]")
    least, largest = int(ids.min()), int(ids.max())
    if least < 0 or largest >= num_embeddings:
        wrong = least if least < 0 else largest
        raise IdOutOfRangeError(f"document {number}: id {wrong} is outside a table of {num_embeddings} rows")
    return ids.astype(np.int64, copy=False)
