"""Plots of trained tables as SVG: figures 5 and 6 of the DPQ paper, 3 and 8 of the ANT paper.

They require matplotlib (an extra).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from edge_embed.errors import BadInputError
from edge_embed.files import StrPath, new_file
from edge_embed.layers.anchor_search import SearchStep
from edge_embed.report.views.svg import check_plots, write_svg

if TYPE_CHECKING:  # matplotlib is an extra
    from matplotlib.figure import Figure

_INCHES = (5.0, 3.6)  # size of a panel


def draw_usage(usage: Mapping[str, ArrayLike], path: StrPath, *, force: bool = False) -> None:
    """Draw heat maps of `code_usage` side by side: codes are columns, groups are rows (figure 5).

    Args:
        usage: counts [D, K] by title, such as ``{"SX": code_usage(layer)}``.
        path: file to write.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    maps = {title: np.asarray(counts) for title, counts in usage.items()}
    for title, counts in maps.items():
        if counts.ndim != 2:
            raise BadInputError(f"usage {title!r}: got counts of shape {list(counts.shape)}, expected [groups, codes]")
    figure = _figure(len(maps))
    for panel, (title, counts) in zip(figure.subplots(1, len(maps), squeeze=False).flat, maps.items(), strict=True):
        image = panel.imshow(counts, aspect="auto", interpolation="nearest", vmin=0)
        panel.set(title=title, xlabel="code", ylabel="group")
        figure.colorbar(image, ax=panel, label="rows")
    _write(figure, path, force)


def draw_changes(changes: Mapping[str, Sequence[float]], path: StrPath, *, every: int = 1, force: bool = False) -> None:
    """Draw a line of `code_changes` from checkpoint to checkpoint for each table (figure 6).

    Args:
        changes: shares of changed codes, in order, by label, such as ``{"K = 16": [.4, .1]}``.
        path: file to write.
        every: steps from one checkpoint to the next.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    figure = _figure(1 if changes else 0)
    panel = figure.subplots()
    for label, parts in changes.items():
        panel.plot(every * np.arange(1, len(parts) + 1), parts, marker=".", label=label)
    panel.set(xlabel="step", ylabel="fraction of changed codes", ylim=(0, 1))
    panel.legend(fontsize="small")
    _write(figure, path, force)


def draw_search(history: Sequence[SearchStep], path: StrPath, *, force: bool = False) -> None:
    """Draw the history of an `AnchorSearch`: anchors over its steps (figure 8), eq. (34) over anchors (figure 3).

    Args:
        history: ``search.history``; each table is a line.
        path: file to write.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    figure = _figure(2 if history else 0)
    over_time, by_number = figure.subplots(1, 2)
    objectives = [step.objective for step in history]
    for place, numbers in enumerate(zip(*(step.num_anchors for step in history), strict=True)):
        over_time.plot(range(1, len(numbers) + 1), numbers, marker=".", label=f"table {place}")
        by_number.plot(numbers, objectives, marker=".", label=f"table {place}")
    over_time.set(xlabel="step of the search", ylabel="anchors")
    by_number.set(xlabel="anchors", ylabel="objective, eq. (34)")
    over_time.legend(fontsize="small")
    _write(figure, path, force)


def _figure(panels: int) -> "Figure":
    if not panels:
        raise BadInputError("nothing to draw: got no tables, expected at least one")
    check_plots()
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure((panels * _INCHES[0], _INCHES[1]), layout="constrained")


def _write(figure: "Figure", path: StrPath, force: bool) -> None:
    with new_file(path, force=force) as target:
        write_svg(figure, target)
