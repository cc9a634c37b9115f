"""Text file that a person or an earlier check wrote: it is read whole, up to a limit of bytes."""

import re
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole

# Outside of multi-line strings, neither JSON nor TOML has lines with this beginning.
_CONFLICT = re.compile(r"^(<{7}|>{7})( |\r?$)", re.MULTILINE)


def read_source(path: Path, most: int, expected: str) -> str:
    """Return the text of a file, without a byte order mark.

    Args:
        path: path of the file.
        most: largest number of bytes.
        expected: description of the expected content, for messages.

    Raises:
        BadInputError: the file is missing, unreadable, too large, not UTF-8, or has marks of a conflict.
    """
    try:
        text = read_whole(path, most, expected).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"is not UTF-8 text, expected {expected}") from error
    if mark := _CONFLICT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        raise BadInputError(
            f"line {line}: got {mark[1]}, a merge conflict marker, expected {expected}; resolve the conflict"
        )
    return text
