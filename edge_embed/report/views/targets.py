"""View of the whole model on targets, on the terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType

from edge_embed.report.results.validation import TargetResult
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import cell, line

_MEBI = 1 << 20


def target_table(targets: Sequence[TargetResult]) -> RenderableType:
    """Return times, memory and versions of the targets that ran, then the outcome of every target."""
    table = FoldedTable("target", "", "session ms", "first call ms", "call ms", "memory MiB", "", title="Targets")
    table.title_justify = "left"
    for column in table.columns[2:6]:
        column.justify = "right"
    for target in targets:
        if target.status != "not run":
            times = target.times.milliseconds() if target.times else ("", "", "")
            versions = ", ".join(f"{name} {version}" for name, version in target.versions.items())
            table.add_row(cell(target.name), target.evidence, *times, _memory(target), cell(versions))
    counts = [cell(f"    {target.name}: {_counts(target)}") for target in targets if "instructions" in target.counters]
    outcomes = [line(target.status, target.name, _outcome(target)) for target in targets]
    return Group("", *([table] if table.row_count else []), *counts, *outcomes)


def _outcome(target: TargetResult) -> str:
    return target.outputs[0].detail if len(target.outputs) == 1 else target.detail


def _counts(target: TargetResult) -> str:
    counted = ", ".join(f"{target.counters[name]:,} {name}" for name in ("instructions", "loads", "stores"))
    return f"{counted} of our operators in a warm call; instruction count, not latency"


def _memory(target: TargetResult) -> str:
    resident = target.counters.get("resident_bytes")
    return "" if resident is None else f"{resident / _MEBI:,.1f}"
