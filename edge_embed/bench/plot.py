"""Two plots of a report: ratios against the vocabulary, and measured points under the machine's roofline."""

from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from edge_embed.report.results.bench import BenchReport, Measurement, Roofs
from edge_embed.report.results.interval import Interval
from edge_embed.report.views.svg import write_svg

if TYPE_CHECKING:  # matplotlib is an extra
    from matplotlib.axes import Axes

FILES = ("ratios.svg", "roofline.svg")
_COLUMNS = 3
_INCHES = (5.0, 3.6)  # size of a panel
_MARKERS = "osD^vP*X"


def draw(report: BenchReport, ratios: Path, roofline: Path) -> None:
    """Write both plots as SVG.

    Args:
        report: the measurements.
        ratios: path of the plot with one panel for each use, batch, kind of ids and state of the caches, and a line for
            each peer.
        roofline: path of the plot with one point for each measurement, by method and use.
    """
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    panels = _panels(report.measurements)
    rows = -(-len(panels) // _COLUMNS)
    canvas = Canvas((_COLUMNS * _INCHES[0], rows * _INCHES[1]), layout="constrained")
    axes = list(canvas.subplots(rows, _COLUMNS, squeeze=False).flat)
    for panel, (title, found) in zip(axes, panels.items(), strict=False):
        _draw_ratios(panel, title, found)
    for panel in axes[len(panels) :]:
        panel.set_axis_off()
    write_svg(canvas, ratios)
    canvas = Canvas((9, 6), layout="constrained")
    _draw_roofline(canvas.subplots(), report.measurements, report.roofs)
    write_svg(canvas, roofline)


def _panels(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Group measurements by everything but the vocabulary."""
    panels: dict[str, list[Measurement]] = {}
    for one in measurements:
        title = f"{one.table}, d = {one.embedding_dim}\n{one.use}: {one.call}"
        panels.setdefault(title, []).append(one)
    return panels


def _draw_ratios(axes: "Axes", title: str, measurements: Sequence[Measurement]) -> None:
    lines: dict[str, list[tuple[int, Interval]]] = {}
    for one in measurements:
        for peer in one.peers:
            if ratio := peer.ratio(one.threads):
                lines.setdefault(peer.name, []).append((one.num_embeddings, ratio))
    for marker, (name, points) in zip(cycle(_MARKERS), lines.items(), strict=False):
        points.sort(key=lambda point: point[0])
        sizes, ratios = zip(*points, strict=True)
        below = [ratio.median - ratio.low for ratio in ratios]
        above = [ratio.high - ratio.median for ratio in ratios]
        medians = [ratio.median for ratio in ratios]
        axes.errorbar(sizes, medians, (below, above), marker=marker, markersize=4, capsize=3, label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="rows of the table", ylabel="time / ours (above 1: ours is faster)")
    axes.set_title(title, fontsize="small")
    if lines:
        axes.legend(fontsize="x-small")


def _draw_roofline(axes: "Axes", measurements: Sequence[Measurement], roofs: Roofs) -> None:
    intensities = [one.operations / one.bytes for one in measurements]
    corners = {level: roofs.multiply_add / rate for level, rate in roofs.read.items()}
    left = min(*intensities, *corners.values()) / 4
    for level, rate in roofs.read.items():
        axes.plot((left, corners[level]), (rate * left, roofs.multiply_add), color="grey", linewidth=0.8)
        axes.annotate(f"{level} {rate:.0f} GB/s", (left, rate * left), fontsize="x-small")
    axes.axhline(roofs.multiply_add, color="grey", linewidth=0.8)
    axes.annotate(f"{roofs.multiply_add:.0f} GFLOP/s", (left, roofs.multiply_add), fontsize="x-small")
    groups: dict[str, list[tuple[float, float]]] = {}
    for one, intensity in zip(measurements, intensities, strict=True):
        groups.setdefault(f"{one.method} {one.use}", []).append((intensity, one.gigaflops))
    for marker, (name, points) in zip(cycle(_MARKERS), groups.items(), strict=False):
        axes.plot(*zip(*points, strict=True), marker=marker, linestyle="none", markersize=5, label=name)
    axes.set(xscale="log", yscale="log", xlabel="least operations per byte", ylabel="10⁹ operations per second")
    axes.set_title("Measured rates and limits of one thread", fontsize="small")
    axes.legend(fontsize="x-small")
