"""A check as Markdown for a comment on a pull request: the verdict, what failed, sizes and times; the rest folded.

Names and messages may come from a file that somebody else made: nothing of them is taken as markup, and nobody is
notified by an ``@name`` in them.
"""

import re
from collections.abc import Iterable, Iterator

from edge_embed.report.check import BaseResult, CheckReport, Comparison, Finding, Side
from edge_embed.report.interval import Interval
from edge_embed.report.words import plain

_MARKS = {"passed": "✅", "failed": "❌", "not run": "⚪"}
_NO_SPACE = "&#8203;"  # of no width: breaks `@name` and `#1`, which would notify people and link to issues


def to_markdown(report: CheckReport) -> str:
    """The text of the comment, UTF-8 when it is written."""
    mark = _MARKS["passed" if report.passed else "failed"]
    blocks = [f"### {mark} edge-embed check: {report.verdict}"]
    for status in ("failed", "not run"):
        found = [finding for finding in report.findings if finding.status == status]
        blocks += [_findings(found)] if found else []
    blocks.append(_sizes(report))
    if report.base is not None:
        blocks += [_comparisons(report.base), _sides(report.base.sides)]
    passed = [finding for finding in report.findings if finding.status == "passed"]
    if passed:
        blocks.append(f"<details><summary>{len(passed)} passed</summary>\n\n{_findings(passed)}\n\n</details>")
    environment = ", ".join(f"{name} {value}" for name, value in report.environment.items())
    blocks.append(f"<sub>{_text(environment)}</sub>")
    return "\n\n".join(blocks) + "\n"


def _text(text: str) -> str:
    """Shown as it is: what Markdown or HTML would act on becomes an entity."""
    escaped = re.sub(r"[&<>|`*_\[\]\\~!$]|:(?=\S)", lambda found: f"&#{ord(found[0])};", plain(text))
    return re.sub(r"[@#](?!\d+;)", rf"\g<0>{_NO_SPACE}", escaped)


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(header)
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _findings(findings: Iterable[Finding]) -> str:
    lines = [["", "", "", ""], [":-:", "---", "---", "---"]]
    lines += [
        [_MARKS[finding.status], finding.requirement, _text(finding.name), _text(finding.detail)]
        for finding in findings
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _sizes(report: CheckReport) -> str:
    sizes = report.validation.sizes
    rows = {"on disk": sizes.on_disk, "zipped": sizes.zipped}
    rows |= {part.title: part.bytes for part in sizes.parts}

    def cells() -> Iterator[list[str]]:
        for name, now in rows.items():
            grown = report.grown.get(name)
            yield [_text(name), f"{now:,}", "" if grown is None else f"{grown:+,}"]

    return _table(["size", "bytes", "against the baseline"], cells())


def _comparisons(base: BaseResult) -> str:
    measured = [found for found in base.comparisons if found.cpu is not None]
    rows = (
        [_text(found.title), _interval(found.cpu), _interval(found.wall), *_microseconds(found)] for found in measured
    )
    return _table(["time / time of the base", "CPU", "wall", "base µs", "now µs"], rows)


def _microseconds(found: Comparison) -> list[str]:
    both = (found.base_microseconds, found.candidate_microseconds)
    return ["" if time is None else f"{time:,.1f}" for time in both]


def _interval(found: Interval | None) -> str:
    return "" if found is None else f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})"


def _sides(sides: Iterable[Side]) -> str:
    def cells(side: Side) -> list[str]:
        if side.open_seconds is None or side.first_call_seconds is None:
            return [side.name, _text(side.reason), "", "", ""]
        times = (f"{1e3 * seconds:,.1f}" for seconds in (side.open_seconds, side.first_call_seconds))
        return [side.name, *times, f"{side.resident:,}", f"{side.peak:,}"]

    return _table(["in a fresh process", "open ms", "first call ms", "resident", "peak"], map(cells, sides))
