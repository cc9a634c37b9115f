"""JSON files whose content is one object, read up to a limit."""

import json
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, located
from edge_embed.input_file import read_whole


def read_json_object(path: Path, most: int, expected: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: path of the file.
        most: largest number of bytes.
        expected: description of the expected content, for messages.

    Raises:
        BadInputError: the file is missing, too large or no JSON, or has something other than an object; the message
            names the file without its folder.
    """
    with located(path.name):
        try:
            content = json.loads(read_whole(path, most, expected))
        except (ValueError, RecursionError) as error:
            if isinstance(error, BadInputError):
                raise
            raise BadInputError(f"is not valid JSON: {error!s:.200}") from error
        if not isinstance(content, dict):
            raise BadInputError(f"got {content!r:.80}, expected an object")
        return content
