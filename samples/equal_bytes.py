"""All methods at equal bytes: compression without training of the tables of real models, judged by the models.

Usage: python samples/equal_bytes.py --data FOLDER --seeds 3 --output FOLDER
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from cells import DENSE, Cell, cells_options, mean_of, pairs_of, run_cells, values_of
from claims import interval, shown
from matplotlib.figure import Figure
from options import Options
from tiers.contenders import CONTENDERS, Contender, compressed
from tiers.other_methods import OTHERS

from edge_embed.report.views.markdown.blocks import join, table
from edge_embed.report.views.svg import write_svg

_RATIOS = (8, 16, 32, 64)
_AUTO = "auto"
_BAND: Mapping[str, Any] = {"color": "0.8", "linewidth": 9, "zorder": 0}
_OWN = ("tiered", "dpq", "opq", "rows", "ant", "tt", "tr", "low_rank", "trimming")
METHODS: Mapping[str, Contender] = {_AUTO: compressed(_AUTO), **{name: CONTENDERS[name] for name in _OWN}, **OTHERS}
_NOTE = """\
Every method gets the bytes of the dense tables divided by the ratio, and sees counts of training data, never a figure.
Methods of edge-embed see the weight of the next layer too, where it is the only one that reads the rows.
Figures are means over the seeds with 95 % intervals (Student's t). A seed changes the fit, and models that are trained
here. `auto` is within noise of the best other method if the 95 % interval of their differences within a seed reaches
zero, or if it is better. The best method is chosen by the figure itself, which favours it. *selected* is the method
with the same figures, which is the one that `auto` selects. It is empty if no method has them: `auto` selects a method
and its size for each table and seed. The best other method has other figures."""


@click.command()
@cells_options(METHODS, "equal_bytes.md and equal_bytes.svg")
def main(data: Path, names: Sequence[str], methods: Sequence[str], seeds: int, quick: bool, output: Path) -> None:
    """Compress the tables of several models with each method, and write the figures of the models."""
    command = f"python samples/equal_bytes.py --seeds {seeds}" + " --quick" * quick
    options = Options(data, quick, 0, output)
    chosen = {method: METHODS[method] for method in methods or METHODS}
    cells = run_cells(options, names, seeds, _RATIOS, chosen)
    report = markdown(cells, command)
    (output / "equal_bytes.md").write_text(report, encoding="utf-8")
    draw(cells, output / "equal_bytes.svg")
    print(report, end="")


def markdown(cells: Sequence[Cell], command: str) -> str:
    """Return a table of auto beside the best other method, and a table of all methods for each figure."""
    parts, verdicts = list[str](), list[Verdict]()
    for name in dict.fromkeys(cell["case"] for cell in cells):
        own = [cell for cell in cells if cell["case"] == name]
        verdicts += [verdict for ratio in _RATIOS if (verdict := verdict_of(own, ratio))]
        for figure in next(cell for cell in own if cell["method"] == DENSE)["figures"]:
            parts += [f"## {name}, {figure}", _figures(own, figure)]
    good = sum(verdict.is_good for verdict in verdicts)
    hours = sum(cell.get("seconds", 0) for cell in cells) / 3600
    summary = f"`auto` is within noise of the best other method in {good} of {len(verdicts)} cells."
    header = [
        "model, figure",
        "dense",
        "ratio",
        "selected",
        "`auto`",
        "best other",
        "method",
        "difference",
        "within noise or better",
    ]
    rows = [verdict.row for verdict in verdicts]
    title, cost = "# All methods at equal bytes", f"Fits took {hours:.1f} hours of one core."
    return join([title, f"`{command}`", table(header, rows), f"{summary} {cost}", _NOTE, *parts])


def _figures(own: Sequence[Cell], figure: str) -> str:
    """Return the table of one figure: methods by ratios."""
    rows = [[DENSE, _shown(values_of(own, 1, DENSE, figure)), *[""] * (len(_RATIOS) - 1)]]
    for method in METHODS:
        values = [values_of(own, ratio, method, figure) for ratio in _RATIOS]
        if any(values):
            rows.append([method, *map(_shown, values)])
    return table(["method", *(f"{ratio}x" for ratio in _RATIOS)], rows)


class Verdict(NamedTuple):
    """Auto beside the best other method in a cell: whether it is within noise or better, and a row of words."""

    is_good: bool
    row: list[str]


def verdict_of(own: Sequence[Cell], ratio: int) -> Verdict | None:
    """Return the verdict on the cells of a model at a ratio; None without auto or without other methods."""
    figure, sign = _judged_by(own)
    found = {method: values for method in METHODS if (values := values_of(own, ratio, method, figure))}
    auto = found.pop(_AUTO, None)
    if auto is None:
        return None
    others = {
        method: values for method, values in found.items() if any(one != other for one, other in pairs_of(auto, values))
    }
    if not others:
        return None
    selected = ", ".join(method for method in found if method not in others)  # the same figures of every seed
    best = min(others, key=lambda method: sign * mean_of(others[method]))
    difference = interval([one - other for one, other in pairs_of(auto, others[best])])
    noise = difference["half"] if len(auto) > 1 else 0.0
    is_good = sign * difference["mean"] <= noise
    both = _shown(auto), _shown(others[best])
    dense, answer = _shown(values_of(own, 1, DENSE, figure)), "yes" if is_good else "**no**"
    title = f"{own[0]['case']}, {figure}"
    return Verdict(is_good, [title, dense, f"{ratio}x", selected, *both, best, shown(difference, "+"), answer])


def _judged_by(own: Sequence[Cell]) -> tuple[str, int]:
    """Return the first figure, and 1 if less of it is better, else -1."""
    dense = next(cell for cell in own if cell["method"] == DENSE)
    return next(iter(dense["figures"])), -1 if dense["higher_is_better"] else 1


def _shown(values: Mapping[int, float]) -> str:
    return shown(interval(list(values.values())), "") if values else ""


def draw(cells: Sequence[Cell], path: Path) -> None:
    """Draw the figure of each model against the ratio, a line for each method; that of auto is a band behind it."""
    names = list(dict.fromkeys(cell["case"] for cell in cells))
    figure = Figure(figsize=(9, 3 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        own = [cell for cell in cells if cell["case"] == name]
        judged, sign = _judged_by(own)
        for number, method in enumerate(METHODS):
            means = {ratio: mean_of(found) for ratio in _RATIOS if (found := values_of(own, ratio, method, judged))}
            style = {"color": f"C{number % 10}", "marker": "osv^"[number // 10], "markersize": 4, "linewidth": 1}
            axes.plot(list(means), list(means.values()), label=method, **(_BAND if method == _AUTO else style))
        axes.set(title=name, ylabel=judged, xlabel="ratio")
        axes.set_xscale("log", base=2)
        axes.set_xticks(_RATIOS, [f"{ratio}x" for ratio in _RATIOS])
        if sign > 0:
            axes.set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    write_svg(figure, path)


if __name__ == "__main__":
    main()
