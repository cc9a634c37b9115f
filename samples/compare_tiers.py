"""Compares tiered tables with every other method at no more bytes, without training.

Usage: python samples/compare_tiers.py --data FOLDER --seeds 3 --output FOLDER
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from cells import Cell, cells_of, cells_options, mean_of, pairs_of, run_cells, values_of
from claims import interval, shown
from options import Options
from tiers.contenders import CONTENDERS, OTHER

from edge_embed.report.views.markdown.blocks import join, table

_RATIOS = (8, 16, 32)
_TIERED = "tiered"
_NOTE = """\
Each model is trained once and then only compressed; the methods see counts of training data, never a figure. Every
method gets 1/8, 1/16 or 1/32 of the bytes of its dense tables, and selects its settings as `edge-embed compress` does.
A row shows the best other method by the figure itself, which favours it. *difference* is the figure of the tiered table
minus that of this method within a seed. Figures are means over the seeds with 95 % intervals (Student's t). A seed
changes the models that are trained here, and the fits."""


@click.command()
@cells_options(CONTENDERS, "results.md")
def main(data: Path, names: Sequence[str], methods: Sequence[str], seeds: int, quick: bool, output: Path) -> None:
    """Compress the tables of several models with each method, and write the figures of the models."""
    chosen = {method: CONTENDERS[method] for method in methods or CONTENDERS}
    command = f"python samples/compare_tiers.py --seeds {seeds}" + " --quick" * quick
    cells = run_cells(Options(data, quick, 0, output), names, seeds, _RATIOS, chosen)
    report = markdown(cells, command)
    (output / "results.md").write_text(report, encoding="utf-8")
    print(report, end="")


def markdown(cells: Sequence[Cell], command: str) -> str:
    """Return the table of the figures, a row for each model and ratio, and that of counts of another domain."""
    header = ["model, figure", "dense", "ratio", "tiered", "best other", "method", "difference", "plan"]
    rows, others, won = [], [], 0
    for name in dict.fromkeys(cell["case"] for cell in cells):
        own = [cell for cell in cells if cell["case"] == name]
        dense = [cell for cell in own if cell["method"] == "dense"]
        figure, sign = next(iter(dense[0]["figures"])), -1 if dense[0]["higher_is_better"] else 1
        for ratio in _RATIOS:
            found = {method: values_of(own, ratio, method, figure) for method in CONTENDERS}
            flat = [method for method in found if found[method] and method not in (_TIERED, OTHER)]
            tiered, plans = found[_TIERED], cells_of(own, ratio, _TIERED)
            if not plans or not flat:
                continue
            best = min(flat, key=lambda method: sign * mean_of(found[method]))
            won += bool(tiered) and sign * mean_of(tiered) < sign * mean_of(found[best])
            differences = [one - other for one, other in pairs_of(tiered, found[best])] if tiered else []
            difference = shown(interval(differences), "+") if differences else ""
            values = {cell["seed"]: cell["figures"][figure] for cell in dense}
            title, both = f"{name}, {figure}", (_shown(tiered), _shown(found[best]))
            rows.append([title, _shown(values), f"{ratio}x", *both, best, difference, plans[0].get("setting", "")])
            if found[OTHER]:
                others.append([title, f"{ratio}x", both[0], _shown(found[OTHER]), both[1]])
    summary = f"Tiered tables are best in {won} of {len(rows)} cells. The plan is that of the first seed."
    parts = [f"`{command}`", table(header, rows), summary, _NOTE]
    other_header = ["model, figure", "ratio", "counts of business news", "counts of WikiText-2", "best other"]
    return join([*parts, *([table(other_header, others)] if others else [])])


def _shown(values: Mapping[int, float]) -> str:
    return shown(interval(list(values.values())), "") if values else "does not fit"


if __name__ == "__main__":
    main()
