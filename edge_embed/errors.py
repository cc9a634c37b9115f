"""Errors that a user can cause, each with the exit code of the command line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar


class EdgeEmbedError(Exception):
    """Base of all errors of this package. The message states what was found, what was expected, and the remedy."""

    exit_code: ClassVar[int] = 1


class BadInputError(EdgeEmbedError, ValueError):
    """Wrong usage, or a file that is damaged, hostile or unknown."""

    exit_code = 2


class IdOutOfRangeError(BadInputError, IndexError):
    """An id below 0 or at least the number of rows (an ``IndexError``, as ``nn.Embedding`` raises)."""


class ParityError(EdgeEmbedError):
    """A sound file whose content differs from the model it was compared with."""

    exit_code = 3


class SizeError(EdgeEmbedError):
    """A file larger than its budget."""

    exit_code = 4


class LatencyError(EdgeEmbedError):
    """A model slower than its budget."""

    exit_code = 5


class TimeLimitError(EdgeEmbedError):
    """A step that exceeded its time limit, and was ended."""


class OutputError(EdgeEmbedError):
    """The result could not be written (disk full, no permission); no partial file is left."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put a location before the message of a `BadInputError`."""
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error


def one_line(error: BaseException) -> str:
    """Return the type and first line of an error, for a report."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text:.300}" if text else type(error).__name__


def suggested(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'? `` for a mistyped name or one with an extra word; empty if no name is similar."""
    names = list(known)
    words = name.split("_")
    found = [word for word in names if word in words] if len(words) > 1 else []
    found = found or get_close_matches(name, names, n=1)
    return f"did you mean {found[0]!r}? " if found else ""
