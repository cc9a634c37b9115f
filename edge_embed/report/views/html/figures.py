"""Pictures of a validation: bars of sizes, errors by decade, the distribution of latency ratios.

Axes and text have the colour of the page's text, so that one picture serves light, dark and paper.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edge_embed.report.results.validation import ERROR_EDGES, LatencyResult, OutputResult

if TYPE_CHECKING:  # an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXT = "#010203"  # unique in a picture; it is replaced by the colour of the page's text
_MEBI = 1 << 20
_NEAR = 4  # ratio to the smallest, below which a scale of 1, 2, 5 and 10 would have no numbers


@dataclass(frozen=True)
class Picture:
    """Inline SVG and its caption."""

    svg: str
    caption: str


def size_bars(sizes: Mapping[str, int], caption: str) -> Picture:
    """Draw one bar for each size in bytes, in the given order."""

    def draw(axes: "Axes") -> None:
        names, values = list(sizes), [size / _MEBI for size in sizes.values()]
        bars = axes.barh(names, values, color="C0")
        axes.bar_label(bars, [f"{size:,}" for size in sizes.values()], padding=3, fontsize="small", color=_TEXT)
        axes.invert_yaxis()
        axes.set(xlabel="MiB", xlim=(0, 1.25 * max(values)))

    return _picture(draw, (7.0, 0.6 + 0.35 * len(sizes)), caption)


def error_histogram(output: str, paths: Mapping[str, OutputResult]) -> Picture:
    """Draw the number of values by absolute error: one row of bars for each path, heights on a log scale."""
    labels = ["0", *(f"{edge:g}" for edge in ERROR_EDGES), "more"]

    def draw(axes: "Axes") -> None:
        for row, result in enumerate(paths.values()):
            full = math.log1p(sum(result.histogram))
            heights = [-0.85 * math.log1p(count) / full for count in result.histogram]  # upwards: inverted axis
            axes.bar(range(len(labels)), heights, bottom=row, width=0.9, color="C0")
            axes.axhline(row, color=_TEXT, linewidth=0.4)
        axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize="x-small")
        axes.set_yticks(range(len(paths)), list(paths), fontsize="x-small")
        axes.set(xlabel="absolute error up to", ylim=(len(paths) - 0.8, -1))

    caption = f"Errors of output {output} against the training form: values by decade, log scale"
    return _picture(draw, (7.0, 1.0 + 0.4 * len(paths)), caption)


def latency_strips(results: Sequence[LatencyResult]) -> Picture:
    """Draw the ratio of every round, one row for each measurement and peer, with the median and its interval."""
    rows = [result for result in results if result.ratio is not None]
    figures: list[Any] = [(result.low, result.ratio, result.high) for result in rows]

    def draw(axes: "Axes") -> None:
        for row, (result, (low, middle, high)) in enumerate(zip(rows, figures, strict=True)):
            axes.plot(result.samples, [row] * len(result.samples), "|", color="C0", markersize=9, alpha=0.5)
            axes.plot([low, high], [row, row], color="C1", linewidth=3)
            axes.plot([middle], [row], "o", color="C1", markersize=5)
        axes.set_yticks(range(len(rows)), [f"{result.title} / {result.peer}" for result in rows], fontsize="x-small")
        axes.invert_yaxis()
        axes.axvline(1, color=_TEXT, linewidth=0.8)
        axes.set(xscale="log", xlabel="time of the custom op / time of the peer (below 1: faster)")
        axes.xaxis.set_major_formatter("{x:g}")

    caption = "Latency: every round, the median and its 95 % interval"
    return _picture(draw, (9.0, 0.9 + 0.28 * len(rows)), caption)


def size_against_metric(points: Mapping[str, tuple[int, float]], metric: str, front: Sequence[str] = ()) -> Picture:
    """Draw one point for each model: its bytes and its metric; upper left is better.

    Args:
        points: bytes and metric, by name of the model.
        metric: name of the metric.
        front: names of the models on the Pareto front, smallest first: filled, with a line through them.
    """

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator  # noqa: PLC0415

        steps = [(points[name][0] / _MEBI, points[name][1]) for name in front]
        axes.plot(*zip(*steps, strict=True), color="C0", alpha=0.5, drawstyle="steps-post")
        for name, (size, value) in points.items():
            fill = "C0" if name in front else "none"
            axes.plot([size / _MEBI], [value], "o", color="C0", markerfacecolor=fill)
            axes.annotate(name, (size / _MEBI, value), (6, 6), textcoords="offset points", fontsize="small")
        axes.set(xscale="log", xlabel="MiB", ylabel=metric)
        sizes = [size for size, _ in points.values()]
        near = max(sizes) < _NEAR * min(sizes)
        axes.xaxis.set_major_locator(MaxNLocator(5) if near else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(0.3)

    return _picture(draw, (6.0, 3.4), f"Size against {metric}: upper left is better")


def _picture(draw: Callable[["Axes"], None], inches: tuple[float, float], caption: str) -> Picture:
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": caption,  # ids of two pictures on one page must differ
        "text.parse_math": False,  # names come from the user's model
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _TEXT),
    }
    with mpl.rc_context(style):
        figure = Figure(inches, layout="constrained")
        draw(figure.subplots())
        return Picture(_svg(figure), caption)


def _svg(figure: "Figure") -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :].replace(_TEXT, "currentColor")
