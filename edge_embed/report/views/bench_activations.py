"""View of `edge-embed bench` with sparse activations on the terminal."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from edge_embed.report.results.bench import Figure
from edge_embed.report.results.bench_activations import ActivationBench, ActivationMeasurement
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import interval


def render(report: ActivationBench) -> RenderableType:
    """Return tables for the terminal."""
    tables = [_table(list(found)) for _, found in groupby(report.measurements, lambda one: (one.use, one.activation))]
    figures = [figure for found in report.measurements for figure in (found.ours, *found.peers)]
    legend = dict.fromkeys(f"{one.name}: {one.what}" for one in figures)
    machine = Text(f"{', '.join(report.machine.values())}. Seed {report.seed}, {report.rounds} rounds. {report.method}")
    return Group(*tables, "", *map(Text, legend), "", machine)


def _table(found: list[ActivationMeasurement]) -> RenderableType:
    first = found[0]
    clocks = " or ".join(dict.fromkeys("CPU" if one.threads == 1 else "wall" for one in found))
    title = f"attention by {first.activation}" if first.use == "attention" else first.activation
    table = FoldedTable(
        "call",
        Column("", overflow="fold"),
        *(Column(name, justify="right") for name in ("CPU µs", "wall µs", "error")),
        f"time / ours, {clocks} (95 % interval)",
        title=Text(f"\n{title}"),
        title_justify="left",
    )
    for one in found:
        measured = [one.ours, *one.peers]
        for at, figure in enumerate(measured):
            table.add_row("" if at else one.call, *_cells(figure, one.threads), end_section=at == len(measured) - 1)
    return table


def _cells(figure: Figure, threads: int) -> list[str]:
    error = "" if figure.error is None else f"{figure.error:.0e}"
    shown = interval(figure.ratio(threads))
    return [figure.name, f"{figure.cpu_microseconds:,.1f}", f"{figure.wall_microseconds:,.1f}", error, shown]
