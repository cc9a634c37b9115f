"""JSON for our own headers: whole numbers only, no key twice, one spelling.

``json.loads`` alone lets a damaged file through: it keeps the last of two equal keys, reads ``[3.1]`` where a
bit flip changed ``[3,1]``, and accepts ``NaN``.
"""

import json
from typing import Any, NoReturn

from edge_embed.errors import BadInputError


def parse(text: str | bytes) -> Any:
    """Read JSON; whatever is wrong with it (depth, huge numbers, bad UTF-8) is a ``BadInputError``."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_float=_no_number, parse_constant=_no_number)
    except BadInputError:
        raise
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is no valid JSON: {error}") from error


def canonical(value: Any) -> str:
    """Write JSON the one way: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def exact_keys(value: Any, names: set[str], what: str) -> dict[str, Any]:
    """Refuse anything but an object with exactly these keys."""
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object")
    if value.keys() != names:
        missing, unknown = sorted(names - value.keys()), sorted(value.keys() - names)
        raise BadInputError(
            f"{what}: missing keys {missing}, unknown keys {unknown}, expected {sorted(names)}"
        )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise BadInputError(f"has a key twice among {sorted(key for key, _ in pairs)}")
    return result


def _no_number(text: str) -> NoReturn:
    raise BadInputError(f"holds the number {text:.40}, expected whole numbers only")
