"""A text file that a person or an earlier check wrote: read whole, and not if it is far too large."""

from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole


def read_source(path: Path, most: int, expected: str) -> str:
    """The text of a file.

    Args:
        path: of the file.
        most: bytes that are read.
        expected: what it should be, in words, for messages.

    Raises:
        BadInputError: there is no such file, it cannot be read, is larger, or is no UTF-8.
    """
    try:
        return read_whole(path, most, expected).decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"is no text in UTF-8: expected {expected}") from error
