"""Every error a user can cause, each with the exit code of the command line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar


class EdgeEmbedError(Exception):
    """Base of all errors of this package. The message states what was got, what was expected, the remedy."""

    exit_code: ClassVar[int] = 1


class BadInputError(EdgeEmbedError, ValueError):
    """Wrong usage, or a file that is damaged, hostile or not understood."""

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
    """A step that took longer than it may, and was ended."""


class OutputError(EdgeEmbedError):
    """The result could not be written (disk full, no permission); nothing partial is left behind."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the place before the message of a `BadInputError`."""
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error


def one_line(error: BaseException) -> str:
    """The type and first line of an error, for a report."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text:.300}" if text else type(error).__name__


def suggested(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? `` for a name that is mistyped or has a word too many, or nothing where none is alike."""
    names = list(known)
    words = name.split("_")
    found = [word for word in names if word in words] if len(words) > 1 else []
    found = found or get_close_matches(name, names, n=1)
    return f"did you mean {found[0]!r}? " if found else ""
