"""JSON files of a bundle: they come from a network, so size, nesting and types are checked before anything is used."""

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole

T = TypeVar("T")

_MOST_BYTES = 256 << 20
_REQUIRED: Any = object()
_KINDS: dict[Any, str] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def read_json(path: Path, what: str) -> Any:
    """Return the content of a JSON file.

    Args:
        path: path of the file.
        what: what it holds, for messages.

    Raises:
        BadInputError: it is missing, larger than 256 MB or no JSON. The message does not name the path.
    """
    content = read_whole(path, _MOST_BYTES, what)
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is damaged: expected {what} as JSON: {error}") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"got {constant}, which is no JSON")


@overload
def typed(content: Any, key: str, kind: type[T], default: T = ...) -> T: ...


@overload
def typed(content: Any, key: str, kind: tuple[type, ...], default: Any = ...) -> Any: ...


def typed(content: Any, key: str, kind: Any, default: Any = _REQUIRED) -> Any:
    """Return the value of a key.

    Args:
        content: a JSON object.
        key: its key.
        kind: type of the value, or types.
        default: value if the key is missing.

    Raises:
        BadInputError: it is no object, the key is missing without a default, or its value has another type.
    """
    if not isinstance(content, dict):
        raise BadInputError(f"got {content!r:.80}, expected an object with {key!r}")
    if key not in content and default is not _REQUIRED:
        return default
    if key not in content:
        raise BadInputError(f"{key} is missing, expected {_spelled(kind)}")
    value = content[key]
    # A bool is an int in Python only.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadInputError(f"{key}: got {value!r:.80}, expected {_spelled(kind)}")
    return value


def _spelled(kind: Any) -> str:
    return _KINDS.get(kind, "a number")
