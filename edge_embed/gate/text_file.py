"""A text file that a person or an earlier check wrote: read whole, and not if it is far too large."""

import re
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole

# Neither JSON nor TOML has lines that begin so, but within a text of several lines.
_CONFLICT = re.compile(r"^(<{7}|>{7})( |\r?$)", re.MULTILINE)


def read_source(path: Path, most: int, expected: str) -> str:
    """The text of a file, without a byte order mark.

    Args:
        path: of the file.
        most: bytes that are read.
        expected: what it should be, in words, for messages.

    Raises:
        BadInputError: there is no such file, it cannot be read, is larger, is no UTF-8, or has marks of a conflict.
    """
    try:
        text = read_whole(path, most, expected).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"is no text in UTF-8: expected {expected}") from error
    if mark := _CONFLICT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        raise BadInputError(
            f"line {line}: got {mark[1]}, the mark of a merge conflict, expected {expected}: resolve the conflict"
        )
    return text
