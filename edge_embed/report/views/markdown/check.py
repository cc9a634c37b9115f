"""View of a check as Markdown: the verdict, failures, sizes and times; the rest folded."""

from collections.abc import Iterable, Iterator

from edge_embed.report.results.check import BaseResult, CheckReport, Comparison, Side
from edge_embed.report.results.interval import Interval
from edge_embed.report.views.markdown.blocks import (
    MARKS,
    change_tables,
    footnote,
    join,
    outcomes,
    passed,
    size_table,
    table,
    text,
)


def check_markdown(report: CheckReport) -> str:
    """Return the text of the comment."""
    return join(_blocks(report))


def _blocks(report: CheckReport) -> Iterator[str]:
    mark = MARKS["failed" if report.exit_code else "passed"]
    yield f"### {mark} edge-embed check: {report.verdict}"
    lines = [(found.status, found.requirement, found.name, found.detail) for found in report.shown()]
    yield from outcomes(lines)
    if report.note:
        yield text(report.note)
    yield from (f"⚠️ {text(warning)}" for warning in report.warnings)
    yield from change_tables(report.validation.model)
    yield size_table(report.validation.sizes, report.grown)
    if report.base is not None:
        yield _comparisons(report.base)
        yield _sides(report.base.sides)
    yield from passed(lines)
    yield footnote(report.environment)


def _comparisons(base: BaseResult) -> str:
    measured = [found for found in base.comparisons if found.cpu is not None]
    rows = (
        [text(found.title), _interval(found.cpu), _interval(found.wall), *_microseconds(found)] for found in measured
    )
    return table(["time / time of the base", "CPU", "wall", "base µs", "candidate µs"], rows)


def _microseconds(found: Comparison) -> list[str]:
    both = (found.base_microseconds, found.candidate_microseconds)
    return ["" if time is None else f"{time:,.1f}" for time in both]


def _interval(found: Interval | None) -> str:
    return "" if found is None else f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})"


def _sides(sides: Iterable[Side]) -> str:
    def cells(side: Side) -> list[str]:
        if side.open_seconds is None or side.first_call_seconds is None:
            return [side.name, text(side.reason), "", "", ""]
        times = (f"{1e3 * seconds:,.1f}" for seconds in (side.open_seconds, side.first_call_seconds))
        return [side.name, *times, f"{side.resident:,}", f"{side.peak:,}"]

    return table(["in a fresh process", "open ms", "first call ms", "resident", "peak"], map(cells, sides))
