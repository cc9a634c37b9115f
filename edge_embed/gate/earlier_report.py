"""A JSON report that an earlier command wrote: whatever is in the file, a message says what is wrong and the remedy."""

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
    """Yield what a report holds, while its values are taken out of it.

    Args:
        path: of the report.
        kinds: of reports that will do, each with its version of the schema.
        remedy: how to write such a report, in words.

    Raises:
        BadInputError: there is no such file, it is no report of these kinds and versions, or a value in it is none.
    """
    try:
        with located(str(path)):
            content = take_object(_parse(path, kinds), "report")
            kind, version = content.get("kind"), content.get("schema_version")
            if not isinstance(kind, str) or kind not in kinds:
                raise BadInputError(f"is no report of {_names(kinds)}: got kind {kind!r:.80}")
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
    except (ValueError, RecursionError) as error:  # of numbers with 5,000 digits, too
        raise BadInputError(f"is no JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def take_object(value: Any, what: str) -> dict[str, Any]:
    """An object of JSON."""
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object")
    return value


def take_list(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of objects."""
    value = content.get(key)
    if not isinstance(value, list):
        raise BadInputError(f"{key}: got {value!r:.80}, expected a list")
    return [take_object(item, key) for item in value]


def take_size(content: Mapping[str, Any], key: str) -> int:
    """Bytes, or another count."""
    value = content.get(key)
    if type(value) is not int or not 0 <= value < _MOST_SIZE:
        raise BadInputError(f"{key}: got {value!r:.80}, expected bytes")
    return value


def take_number(content: Mapping[str, Any], key: str) -> float:
    """A finite number."""
    value = content.get(key)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise BadInputError(f"{key}: got {value!r:.80}, expected a finite number")
    return float(value)  # type: ignore[arg-type]


def take_text(content: Mapping[str, Any], key: str) -> str:
    """A text."""
    value = content.get(key)
    if not isinstance(value, str):
        raise BadInputError(f"{key}: got {value!r:.80}, expected text")
    return value


def take_truth(content: Mapping[str, Any], key: str) -> bool:
    """True or false."""
    value = content.get(key)
    if type(value) is not bool:
        raise BadInputError(f"{key}: got {value!r:.80}, expected true or false")
    return value
