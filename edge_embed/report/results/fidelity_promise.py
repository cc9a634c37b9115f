"""Fidelity that `compress` records in a file for each table that it packed.

The text is one JSON object, keyed by the name of the packed table. Numbers have six digits, so that they do not depend
on the machine.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.report.results.compressed import CompressedTable

_MOST_LETTERS = 1 << 22
_MOST_ROWS = 100  # most rows named as the worst of a table


@dataclass(frozen=True)
class Promise:
    """Recorded fidelity of one packed table.

    Attributes:
        table: name of the dense table in the original.
        mean_cosine: mean cosine of all its rows with the dense ones.
        relative_error: ||C - E|| / ||E||; None if `compress` weighted rows by counts, which the file does not hold.
        worst: (id, cosine) of the rows with the smallest cosines, smallest first.
    """

    table: str
    mean_cosine: float
    relative_error: float | None
    worst: tuple[tuple[int, float], ...]


def promises_of(reports: Iterable[CompressedTable], names: Mapping[str, str]) -> dict[str, Promise]:
    """Return the promises of reports, by name of the packed table; ``names`` maps a dense name to its packed name."""
    return {names[report.name]: promise for report in reports if (promise := promise_of(report))}


def promise_of(report: CompressedTable) -> Promise | None:
    """Return the promise of one report, or None if the table was left."""
    found = report.fidelity
    if found is None:
        return None
    rows = sum(band.rows for band in found.bands)
    mean = sum(band.rows * band.mean for band in found.bands) / rows if rows else 1.0
    weighted = len(found.bands) > 1
    worst = tuple((row, _rounded(cosine)) for row, cosine in found.worst)
    return Promise(report.name, _rounded(mean), None if weighted else _rounded(found.relative_error), worst)


def write_promises(promises: Mapping[str, Promise], before: str | None = None) -> str:
    """Return promises as a text; promises of other tables in the text ``before`` are kept."""
    kept = {} if before is None else parse_promises(before)
    entries = {name: asdict(promise) for name, promise in {**kept, **promises}.items()}
    return json.dumps(entries, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_promises(text: str) -> dict[str, Promise]:
    """Read a text of `write_promises`.

    Raises:
        BadInputError: it is no such text.
    """
    try:
        if len(text) > _MOST_LETTERS:
            raise ValueError(f"{len(text):,} characters")
        return {str(name): _promise(entry) for name, entry in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        expected = "expected the record of `edge-embed compress`; compress the original again"
        raise BadInputError(f"recorded fidelity: got {error!s:.80}, {expected}") from error


def _promise(entry: Mapping[str, Any]) -> Promise:
    error = entry["relative_error"]
    worst = tuple((int(row), _number(cosine)) for row, cosine in entry["worst"][:_MOST_ROWS])
    return Promise(str(entry["table"]), _number(entry["mean_cosine"]), None if error is None else _number(error), worst)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} instead of a number")
    return float(value)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
