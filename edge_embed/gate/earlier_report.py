"""JSON report of an earlier command: every invalid content leads to a message with the fault and the remedy."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from edge_embed.errors import BadInputError, located
from edge_embed.gate.text_file import read_source

_MOST_BYTES = 64 << 20
_MOST_SIZE = 1 << 62


@contextmanager
def saved_report(path: Path, kinds: Mapping[str, int], remedy: str) -> Iterator[Mapping[str, Any]]:
    """Yield the content of a report, and name the file and the remedy in errors of the reading code.

    Args:
        path: path of the report.
        kinds: accepted kinds of reports, each with its version of the schema.
        remedy: how to write such a report, as a text.

    Raises:
        BadInputError: the file is missing, is no report of these kinds and versions, or has an invalid value.
    """
    try:
        with located(str(path)):
            content = take_object(_parse(path, kinds), "report")
            if content.keys() == {"error", "exit_code"}:
                got = f"got the error of a failed command ({content['error']!s:.200})"
                raise BadInputError(f"{got}, expected a report of {_names(kinds)}")
            kind, version = content.get("kind"), content.get("schema_version")
            if not isinstance(kind, str) or kind not in kinds:
                raise BadInputError(f"kind: got {kind!r:.80}, expected a report of {_names(kinds)}")
            if type(version) is not int or version != kinds[kind]:
                raise BadInputError(f"schema_version: got {version!r:.80}, expected {kinds[kind]}")
            yield content
    except BadInputError as error:
        raise BadInputError(f"{error}; {remedy}") from error


def _names(kinds: Mapping[str, int]) -> str:
    return " or ".join(f"`{kind}`" for kind in kinds)


def _parse(path: Path, kinds: Mapping[str, int]) -> Any:
    text = read_source(path, _MOST_BYTES, f"a report of {_names(kinds)}")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # also raised for numbers with 5,000 digits
        raise BadInputError(f"is not valid JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def take_object(value: Any, what: str) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object")
    return value


def take_list(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects."""
    value = content.get(key)
    if not isinstance(value, list):
        raise BadInputError(f"{key}: got {value!r:.80}, expected a list")
    return [take_object(item, key) for item in value]


def take_size(content: Mapping[str, Any], key: str) -> int:
    """Return bytes, or another count."""
    value = content.get(key)
    if type(value) is not int or not 0 <= value < _MOST_SIZE:
        raise BadInputError(f"{key}: got {value!r:.80}, expected bytes")
    return value


def take_number(content: Mapping[str, Any], key: str) -> float:
    """Return a finite number."""
    value = content.get(key)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise BadInputError(f"{key}: got {value!r:.80}, expected a finite number")
    return float(value)  # type: ignore[arg-type]


def take_text(content: Mapping[str, Any], key: str) -> str:
    """Return a text."""
    value = content.get(key)
    if not isinstance(value, str):
        raise BadInputError(f"{key}: got {value!r:.80}, expected text")
    return value


def take_truth(content: Mapping[str, Any], key: str) -> bool:
    """Return true or false."""
    value = content.get(key)
    if type(value) is not bool:
        raise BadInputError(f"{key}: got {value!r:.80}, expected true or false")
    return value
