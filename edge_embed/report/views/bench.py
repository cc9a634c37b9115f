"""View of `edge-embed bench` on the terminal."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from edge_embed.report.results.bench import BenchReport, Figure, Measurement, Roofs
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import interval


def render(report: BenchReport) -> RenderableType:
    """Return tables for the terminal."""
    tables = [_table(list(found)) for _, found in groupby(report.measurements, _subject)]
    absent = dict.fromkeys(
        (peer.name, peer.reason) for found in report.measurements for peer in found.peers if peer.reason
    )
    missing = [Text(f"not measured: {name}: {reason}", "yellow") for name, reason in absent]
    figures = [figure for found in report.measurements for figure in (found.ours, *found.peers)]
    legend = [Text(f"{name}: {what}") for name, what in dict.fromkeys((one.name, one.what) for one in figures)]
    machine = Text(f"{', '.join(report.machine.values())}. {report.method}")
    return Group(*tables, "", *missing, *legend, "", _roofs(report.roofs), machine)


def _subject(found: Measurement) -> tuple[str, int, int, str]:
    return found.table, found.num_embeddings, found.embedding_dim, found.use


def _table(found: list[Measurement]) -> RenderableType:
    first = found[0]
    sizes = f"{first.num_embeddings:,} x {first.embedding_dim}, {first.packed_bytes / first.dense_bytes:.1%} of dense"
    beside = max(one.session_bytes for one in found)
    if beside:
        sizes += f", session memory up to {beside / first.dense_bytes:.1%} of dense"
    clocks = " or ".join(dict.fromkeys("CPU" if one.threads == 1 else "wall" for one in found))
    table = FoldedTable(
        "call",
        Column("", overflow="fold"),
        *(Column(name, justify="right") for name in ("CPU µs", "wall µs", "ns per item", "empty call", "error")),
        f"time / ours, {clocks} (95 % interval)",
        title=Text(f"\n{first.use}: {first.table} ({sizes})"),
        title_justify="left",
    )
    for one in found:
        measured = [one.ours, *(peer for peer in one.peers if not peer.reason)]
        for at, figure in enumerate(measured):
            table.add_row("" if at else one.call, *_cells(figure, one.threads), end_section=at == len(measured) - 1)
    return table


def _cells(figure: Figure, threads: int) -> list[str]:
    share = "" if figure.empty_call_share is None else f"{figure.empty_call_share:.0%}"
    error = "" if figure.error is None else f"{figure.error:.0e}"
    shown = interval(figure.ratio(threads))
    numbers = (figure.cpu_microseconds, figure.wall_microseconds, figure.nanoseconds_per_item)
    return [figure.name, *("" if number is None else f"{number:,.1f}" for number in numbers), share, error, shown]


def _roofs(roofs: Roofs) -> Text:
    read = ", ".join(f"{level} {rate:.0f}" for level, rate in roofs.read.items())
    return Text(f"Limits of one thread: reads {read} GB/s; {roofs.multiply_add:.0f} GFLOP/s.")
