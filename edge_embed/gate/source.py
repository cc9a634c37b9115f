"""A text file that a person or an earlier check wrote: read whole, and not if it is far too large."""

from pathlib import Path

from edge_embed.errors import BadInputError


def read_source(path: Path, most: int, expected: str) -> str:
    """The text of a file.

    Args:
        path: of the file.
        most: bytes that are read.
        expected: what it should be, in words, for messages.

    Raises:
        BadInputError: there is no such file, it cannot be read, is larger, or is no UTF-8.
    """
    if not path.is_file():
        got = "is no regular file" if path.exists() else "no such file"
        raise BadInputError(f"{got}: expected {expected}")
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error
    if len(text) > most:
        raise BadInputError(f"has more than {most:,} bytes: expected {expected}")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"is no text in UTF-8: expected {expected}") from error
