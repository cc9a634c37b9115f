"""Plot of the trials of each table: mean cosine against bytes, with the Pareto front; tiers as bits against rows."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from edge_embed.methods import Parts
from edge_embed.report.results.compressed import CompressedTable, CompressReport, Trial, pareto_front
from edge_embed.report.views.svg import write_svg
from edge_embed.report.views.tiers_plot import draw_tiers
from edge_embed.report.views.words import plain

if TYPE_CHECKING:  # matplotlib is an extra
    from matplotlib.axes import Axes

_INCHES = (5.0, 3.6)  # size of a panel
_COLUMNS = 2
_MARKERS = "oPs^vDx<>p*h"  # one for each method


def draw(report: CompressReport, path: Path) -> None:
    """Write a panel for each compressed table as SVG."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawn = [partial(_draw, table=table) for table in report.tables if table.fidelity and table.trials]
    drawn += [partial(draw_tiers, table=table) for table in report.tables if table.plan]
    lines = -(-len(drawn) // _COLUMNS)
    figure = Figure((_INCHES[0] * min(len(drawn), _COLUMNS), _INCHES[1] * lines), layout="constrained")
    panels = list(figure.subplots(lines, min(len(drawn), _COLUMNS), squeeze=False).flat)
    for panel, draw_into in zip(panels, drawn, strict=False):
        draw_into(panel)
    for panel in panels[len(drawn) :]:
        panel.set_axis_off()
    write_svg(figure, path)


def _draw(panel: "Axes", table: CompressedTable) -> None:
    front = pareto_front(table.trials)
    panel.plot(*_points(front), color="0.7", zorder=0)
    for method, marker, trials in _by_method(table):
        panel.plot(*_points(trials), marker, linestyle="", label=method)
    chosen = [trial for trial in table.trials if (trial.method, trial.setting) == (table.method, table.setting)]
    panel.plot(*_points(chosen), "o", markersize=12, fillstyle="none", color="black", label="chosen")
    title = plain(f"{table.name}, {table.num_embeddings:,} x {table.embedding_dim}")
    panel.set_title(title, parse_math=False)  # dollars in a name are no formula
    is_behind = any(trial.next_layer_error is not None for trial in table.trials)
    compared = "1 - e\N{SUPERSCRIPT TWO} / 2, e: error behind the next layer" if is_behind else "mean cosine"
    panel.set(xscale="log", xlabel="bytes", ylabel=compared)
    panel.legend()


def _by_method(table: CompressedTable) -> Iterator[tuple[str, str, list[Trial]]]:
    trials = (*table.trials, *table.baselines)
    for method, marker in zip(Parts("fitting"), cycle(_MARKERS), strict=False):
        if found := [trial for trial in trials if trial.method == method]:
            yield method, marker, found


def _points(trials: Sequence[Trial]) -> tuple[list[int], list[float]]:
    return [trial.nbytes for trial in trials], [trial.closeness for trial in trials]
