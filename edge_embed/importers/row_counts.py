"""Frequencies of rows from files: counts, ids or texts of a data set."""

from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.array_file import read_array
from edge_embed.errors import BadInputError, located
from edge_embed.fitting.row_counts import ORDER, RowCounts, SeenIds
from edge_embed.importers.tokenizer_file import read_tokenizer
from edge_embed.input_file import check_regular

_WIDEST = 8  # bytes of the widest number of torch
_TOGETHER = 1000  # lines
_IDS, _TEXTS = "ids:", "texts:"


def read_row_counts(source: str, tokenizer: Path | None) -> RowCounts:
    """Return the frequencies that a source describes.

    Args:
        source: path of counts (.npy); ``ids:`` or ``texts:`` and a path; or ``order``.
        tokenizer: ``tokenizer.json`` for texts.

    Raises:
        BadInputError: a file is missing or damaged, or holds something else. The message names the file.
    """
    if source == ORDER:
        return ORDER
    if source.startswith(_TEXTS):
        if tokenizer is None:
            raise BadInputError(
                f"{source}: got no tokenizer, expected the tokenizer.json of the model: --tokenizer FILE"
            )
        return _of_texts(Path(source.removeprefix(_TEXTS)), tokenizer)
    file = Path(source.removeprefix(_IDS))
    with located(str(file)):
        if source.startswith(_IDS):
            return _of_ids(file)
        return _counts(file)


def _counts(file: Path) -> Tensor:
    try:
        found = read_array(file)
    except BadInputError as error:
        raise BadInputError(f"cannot be read as an array (.npy): {error}") from error
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > _WIDEST:
        expected = "expected numbers >= 0 [n], the count of each row of the table"
        raise BadInputError(f"got {found.dtype} {[*found.shape]}, {expected}")
    if found.ndim > 1 and found.dtype.kind in "iu":
        remedy = f"counts of a data set's ids are read by {_IDS}FILE"
        raise BadInputError(f"got {found.dtype} {[*found.shape]}, expected one count for each row, [n]: {remedy}")
    return torch.from_numpy(found.astype(found.dtype.newbyteorder("="), copy=False))


def _of_ids(file: Path) -> SeenIds:
    if file.suffix == ".npy":
        return SeenIds.of(read_array(file))
    return SeenIds(_summed(SeenIds.of(ids).occurrences for ids in _ids_of_lines(file)))


def _ids_of_lines(file: Path) -> Iterator[NDArray[Any]]:
    """Yield the integers of a text file, separated by spaces or commas."""
    for begin, lines in _parts(file):
        try:
            yield np.array(" ".join(lines).replace(",", " ").split(), np.int64)
        except (ValueError, OverflowError) as error:
            expected = "expected integers with spaces, commas or line ends between them"
            raise BadInputError(f"lines {begin + 1} to {begin + len(lines)}: {error}, {expected}") from error


def _of_texts(file: Path, tokenizer: Path) -> SeenIds:
    library = read_tokenizer(tokenizer)
    library.no_padding()
    library.no_truncation()
    with located(str(file)):
        ids = (
            np.array(list(chain.from_iterable(found.ids for found in _encoded(library, begin, lines))), np.int64)
            for begin, lines in _parts(file)
        )
        return SeenIds(_summed(SeenIds.of(part).occurrences for part in ids if part.size))


def _encoded(library: Any, begin: int, lines: list[str]) -> Any:
    try:
        return library.encode_batch(lines)
    except Exception as error:  # the library has no other class
        place = f"lines {begin + 1} to {begin + len(lines)}"
        raise BadInputError(f"{place}: {error}, expected texts that the tokenizer encodes") from error


def _parts(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line, and lines with content."""
    check_regular(file, "lines of text in UTF-8")
    try:
        with file.open(encoding="utf-8-sig") as stream:  # without the mark of Windows
            for begin in count(0, _TOGETHER):
                lines = list(islice(stream, _TOGETHER))
                if not lines:
                    return
                if kept := [line.strip() for line in lines if line.strip()]:
                    yield begin, kept
    except UnicodeDecodeError as error:
        raise BadInputError(f"is not text in UTF-8 ({error.reason}), expected lines of text") from error
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


def _summed(parts: Iterator[NDArray[np.int64]]) -> NDArray[np.int64]:
    total = np.zeros(0, np.int64)
    for part in parts:
        longer, shorter = (part.copy(), total) if len(part) > len(total) else (total, part)
        longer[: len(shorter)] += shorter
        total = longer
    if not len(total):
        raise BadInputError("has no ids, expected at least one")
    return total
