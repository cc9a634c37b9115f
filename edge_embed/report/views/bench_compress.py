"""View of `edge-embed bench --use compress` on the terminal."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from edge_embed.report.results.bench_compress import CompressBench, Compressed, CompressMeasurement
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import interval


def render(report: CompressBench) -> RenderableType:
    """Return tables for the terminal."""
    tables = [_table(list(found)) for _, found in groupby(report.measurements, _subject)]
    everyone = [one for found in report.measurements for one in (found.ours, *found.peers)]
    absent = dict.fromkeys(f"not measured: {one.name}: {one.reason}" for one in everyone if one.reason)
    legend = dict.fromkeys(f"{one.name}: {one.what}" for one in everyone)
    machine = Text(f"{', '.join(report.machine.values())}. Seed {report.seed}, {report.rounds} rounds. {report.method}")
    return Group(*tables, "", *(Text(line, "yellow") for line in absent), *map(Text, legend), "", machine)


def _subject(found: CompressMeasurement) -> tuple[str, int, int]:
    return found.table, found.num_embeddings, found.embedding_dim


def _table(found: list[CompressMeasurement]) -> RenderableType:
    first = found[0]
    clocks = " or ".join(dict.fromkeys("CPU" if one.threads == 1 else "wall" for one in found))
    names = ("CPU s", "wall s", "bytes", "cosine", "error")
    table = FoldedTable(
        "task",
        Column("", overflow="fold"),
        *(Column(name, justify="right") for name in names),
        f"ours / peer, {clocks} (95 % interval)",
        title=Text(f"\ncompress: {first.table} ({first.num_embeddings:,} x {first.embedding_dim})"),
        title_justify="left",
    )
    for one in found:
        measured = [one.ours, *(peer for peer in one.peers if not peer.reason)]
        for at, made in enumerate(measured):
            cells = _cells(made, one.threads)
            table.add_row("" if at else one.words, made.name, *cells, end_section=at == len(measured) - 1)
    return table


def _cells(made: Compressed, threads: int) -> Iterator[str]:
    numbers = (made.cpu_seconds, made.wall_seconds, made.packed_bytes, made.mean_cosine, made.relative_error)
    for number, form in zip(numbers, (".3f", ".3f", ",", ".4f", ".4f"), strict=True):
        yield "" if number is None else format(number, form)
    yield interval(made.ratio(threads))
