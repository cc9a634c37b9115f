"""An earlier report of `edge-embed check`, of which the exact figures count: sizes, instructions, and the metric."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from edge_embed.errors import BadInputError
from edge_embed.gate.source import read_source
from edge_embed.packed.manifest import located
from edge_embed.report.check import KIND, SCHEMA_VERSION
from edge_embed.report.parts import SizePart
from edge_embed.report.targets import INSTRUCTIONS

_MOST_BYTES = 64 << 20
_MOST_SIZE = 1 << 62
_REMEDY = "write it again with `edge-embed check --output`, in pytest with --edge-embed-update-baseline"


@dataclass(frozen=True)
class Baseline:
    """What an earlier report says.

    Attributes:
        path: of the report.
        on_disk: bytes of all files.
        zipped: the same, each deflated.
        zlib: version of the library that deflated them.
        parts: of the files.
        metrics: what metrics gave on the exported file, by function.
        instructions: that targets counted, by name.
    """

    path: Path
    on_disk: int
    zipped: int
    zlib: str
    parts: tuple[SizePart, ...]
    metrics: Mapping[str, float]
    instructions: Mapping[str, int]


def read_baseline(path: Path) -> Baseline:
    """Read a report.

    Raises:
        BadInputError: there is no such file, it is no report of a check, or of another version of the schema.
    """
    with located(str(path)):
        content = _object(_parse(path), "report")
        if content.get("kind") != KIND:
            raise BadInputError(f"is no report of `edge-embed check`: got kind {content.get('kind')!r:.80}; {_REMEDY}")
        version = content.get("schema_version")
        if type(version) is not int or version != SCHEMA_VERSION:
            raise BadInputError(f"schema_version: got {version!r:.80}, expected {SCHEMA_VERSION}; {_REMEDY}")
        validation = _object(content.get("validation"), "validation")
        sizes = _object(validation.get("sizes"), "sizes")
        zlib = _object(content.get("environment"), "environment").get("zlib")
        parts = sizes.get("parts")
        if not isinstance(parts, list):
            raise BadInputError(f"parts: got {parts!r:.80}, expected a list; {_REMEDY}")
        return Baseline(
            path,
            _size(sizes, "on_disk"),
            _size(sizes, "zipped"),
            zlib if isinstance(zlib, str) else "unknown",
            tuple(map(_part, parts)),
            _metrics(content.get("metric")),
            _instructions(validation.get("targets", [])),
        )


def _parse(path: Path) -> Any:
    text = read_source(path, _MOST_BYTES, f"the report of an earlier check; {_REMEDY}")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # of numbers with 5,000 digits, too
        raise BadInputError(f"is no JSON: {error}; {_REMEDY}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{what}: got {value!r:.80}, expected an object; {_REMEDY}")
    return value


def _size(content: Mapping[str, Any], key: str) -> int:
    value = content.get(key)
    if type(value) is not int or not 0 <= value < _MOST_SIZE:
        raise BadInputError(f"{key}: got {value!r:.80}, expected bytes; {_REMEDY}")
    return value


def _part(value: Any) -> SizePart:
    content = _object(value, "parts")
    table, name = content.get("table"), content.get("name")
    if not isinstance(name, str) or not (table is None or isinstance(table, str)):
        raise BadInputError(f"parts: got {value!r:.80}, expected table, name and bytes; {_REMEDY}")
    return SizePart(table, name, _size(content, "bytes"))


def _metrics(value: Any) -> dict[str, float]:
    if value is None:
        return {}
    content = _object(value, "metric")
    function, found = content.get("function"), content.get("exported")
    if not isinstance(function, str) or type(found) not in (int, float) or not math.isfinite(found):  # type: ignore[arg-type]
        raise BadInputError(f"metric: got {value!r:.80}, expected a function and numbers; {_REMEDY}")
    return {function: float(found)}  # type: ignore[arg-type]


def _instructions(value: Any) -> dict[str, int]:
    if not isinstance(value, list):
        raise BadInputError(f"targets: got {value!r:.80}, expected a list; {_REMEDY}")
    found = {}
    for target in value:
        content = _object(target, "targets")
        name, counters = content.get("name"), _object(content.get("counters"), "counters")
        if not isinstance(name, str):
            raise BadInputError(f"targets: got name {name!r:.80}, expected text; {_REMEDY}")
        if INSTRUCTIONS in counters:
            found[name] = _size(counters, INSTRUCTIONS)
    return found
