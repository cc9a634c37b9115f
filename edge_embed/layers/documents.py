"""Texts as ids, read a batch of whole documents at a time: what statistics of tokens are counted over."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from edge_embed.errors import BadInputError, IdOutOfRangeError

Document = Tensor | Sequence[int] | np.ndarray[Any, np.dtype[Any]]

_BATCH_IDS = 1 << 20


class Batch(NamedTuple):
    """Ids of some documents one after the other, and for each id which of these it is of: int64 [m] both."""

    ids: np.ndarray[Any, np.dtype[np.int64]]
    owners: np.ndarray[Any, np.dtype[np.int64]]


def batches(documents: Iterable[Document], num_embeddings: int) -> Iterator[Batch]:
    """About a million ids at a time; no document is divided.

    Args:
        documents: each the ids of a text in its order, integers [m] of 0 to ``num_embeddings - 1``.
        num_embeddings: rows n of the table.

    Raises:
        BadInputError: for a document that is no row of integers.
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
    except ValueError as error:  # rows of several lengths
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
