"""View of `edge-embed bench FOLDER FOLDER ...` on the terminal."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from edge_embed.report.results.bench_folders import FolderBench, FolderSession
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import interval


def render(report: FolderBench) -> RenderableType:
    """Return a table for the terminal."""
    clock = "CPU" if report.threads == 1 else "wall"
    right = (f"{clock} ms/token", "ratio", "first token ms", "private MiB", "resident MiB", "files MiB")
    table = FoldedTable(
        "session",
        *(Column(name, justify="right") for name in right),
        title=Text("\nratios to the first session; 95 % intervals"),
        title_justify="left",
    )
    for one in report.sessions:
        table.add_row(one.name, *_cells(one, report.threads))
    absent = dict.fromkeys(f"memory of {one.name}: {one.memory.reason}" for one in report.sessions if one.memory.reason)
    machine = Text(f"{', '.join(report.machine.values())}. Seed {report.seed}, {report.rounds} rounds. {report.method}")
    return Group(table, "", *(Text(line, "yellow") for line in absent), machine)


def _cells(one: FolderSession, threads: int) -> Iterator[str]:
    seconds, ratio = one.token.reported(threads)
    yield interval(seconds, 1e3)
    yield "" if ratio is None else interval(ratio)
    first, first_ratio = one.first_token.reported(threads)
    yield _with_ratio(1e3 * first.median, None if first_ratio is None else first_ratio.median)
    memory = one.memory
    sizes = ((memory.private, one.private_ratio), (memory.resident, one.resident_ratio), (one.bytes, one.bytes_ratio))
    yield from ("" if number is None else _with_ratio(number / 2**20, ratio) for number, ratio in sizes)


def _with_ratio(number: float, ratio: float | None) -> str:
    return f"{number:,.1f}" if ratio is None else f"{number:,.1f} ({ratio:.2f})"
