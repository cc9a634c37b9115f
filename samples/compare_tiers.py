"""Compares tiered tables with every other method at no more bytes, without training.

Usage: python samples/compare_tiers.py --data FOLDER --output FOLDER
"""

import json
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import torch
from options import Options, data_option, make_folder
from tiers import language_model, news, recommenders, sentences, word_vectors
from tiers.case import Case
from tiers.contenders import CONTENDERS, OTHER

from edge_embed.errors import EdgeEmbedError
from edge_embed.files import new_file
from edge_embed.report.views.markdown.blocks import join, table

_CASES = {
    "words": language_model.cases,
    "items": recommenders.cases,
    "news": news.cases,
    "sentences": sentences.cases,
    "vectors": word_vectors.cases,
}
_RATIOS = (8, 16, 32)
_TIERED = "tiered"
_BUILD = Path(__file__).parents[1] / "build" / "tiers"
_NOTE = """\
Each model is trained once and then only compressed; the methods see counts of training data, never a figure. Every
method gets 1/8, 1/16 or 1/32 of the bytes of its dense tables, and selects its settings as `edge-embed compress` does.
A cell shows the best other method by the figure itself, which favours it. *margin* is the loss of the best other method
over that of the tiered table: the KL divergence, or the difference from the dense figure."""

Cell = dict[str, Any]


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--case", "names", multiple=True, type=click.Choice(list(_CASES)), help="Models. [all]")
@click.option("--method", "methods", multiple=True, type=click.Choice(list(CONTENDERS)), help="Methods to run. [all]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option("--quick", is_flag=True, help="Smaller models and fewer texts.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    help="Folder for cells.json and results.md. Cells of other models and methods in it are kept.",
)
def main(data: Path, names: Sequence[str], methods: Sequence[str], seed: int, quick: bool, output: Path) -> None:
    """Compress the tables of several models with each method, and write the figures of the models."""
    options = Options(data, quick, seed, output)
    make_folder(output)
    torch.set_num_threads(1)
    file = output / "cells.json"
    cells = _read(file)
    for name in names or _CASES:
        for case in _CASES[name](options):
            for cell in _measured(case, methods or list(CONTENDERS), options):
                cells = [old for old in cells if _key(old) != _key(cell)] + [cell]
                _write(file, cells, options)
    report = markdown(cells, quick)
    (output / "results.md").write_text(report, encoding="utf-8")
    print(report, end="")


def _measured(case: Case, methods: Sequence[str], options: Options) -> Iterator[Cell]:
    """Yield a cell for the dense model and for each ratio and method."""
    dense = case.figures({})
    yield {"case": case.name, "ratio": 1, "method": "dense", "figures": dense, "bytes": sum(case.nbytes.values()),
           "higher_is_better": case.higher_is_better}  # fmt: skip
    for ratio in _RATIOS:
        for method in methods:
            if method == OTHER and not case.other_counts:
                continue
            cell: Cell = {"case": case.name, "ratio": ratio, "method": method}
            began = time.process_time()
            try:
                rows, nbytes, setting = CONTENDERS[method](case, ratio, options.seed)
            except EdgeEmbedError as error:
                yield cell | {"error": str(error)}
                continue
            cell |= {"seconds": round(time.process_time() - began, 1), "bytes": nbytes, "setting": setting}
            figures = case.figures(rows)
            yield cell | {"figures": figures}
            shown = ", ".join(f"{name} {value:.5g}" for name, value in figures.items())
            click.echo(f"{case.name} {ratio}x {method}: {shown}", err=True)


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell["case"], cell["ratio"], cell["method"]


def _read(file: Path) -> list[Cell]:
    if not file.exists():
        return []
    try:
        found: list[Cell] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise click.ClickException(f"--output: {file} cannot be read: {error}; remove it") from error
    return found


def _write(file: Path, cells: Sequence[Cell], options: Options) -> None:
    results = {
        "command": "python samples/compare_tiers.py" + " --quick" * options.quick,
        "machine": f"{platform.machine()}, one thread, torch {torch.__version__}",
        "cells": list(cells),
    }
    with new_file(file, force=True) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def markdown(cells: Sequence[Cell], quick: bool) -> str:
    """Return the table of the cells, a row for each model and ratio, and that of counts of another domain."""
    header = ["model, figure", "dense", "ratio", "tiered", "best other", "method", "margin", "plan"]
    rows, others, won = [], [], 0
    for dense in (cell for cell in cells if cell["method"] == "dense"):
        figure = next(iter(dense["figures"]))
        name = f"{dense['case']}, {figure}"
        for ratio in _RATIOS:
            found = {cell["method"]: cell for cell in cells if (cell["case"], cell["ratio"]) == (dense["case"], ratio)}
            losses = {method: _loss(cell, dense, figure) for method, cell in found.items() if "figures" in cell}
            flat = [method for method in losses if method not in (_TIERED, OTHER)]
            if _TIERED not in found or not flat:
                continue
            best = min(flat, key=lambda method: losses[method])
            own = losses.get(_TIERED, float("inf"))
            won += own < losses[best]
            shown = [_shown(cell, figure) for cell in (dense, found[_TIERED], found[best])]
            margin = f"{losses[best] / own:.2f}" if 0 < own < float("inf") else ""
            rows.append([name, shown[0], f"{ratio}x", *shown[1:], best, margin, found[_TIERED].get("setting", "")])
            if OTHER in losses:
                others.append([name, f"{ratio}x", shown[1], _shown(found[OTHER], figure), shown[2]])
    command = "python samples/compare_tiers.py" + " --quick" * quick
    summary = f"Tiered tables are best in {won} of {len(rows)} cells."
    parts = [f"`{command}`, one seed.", table(header, rows), summary, _NOTE]
    other_header = ["model, figure", "ratio", "counts of business news", "counts of WikiText-2", "best other"]
    return join([*parts, *([table(other_header, others)] if others else [])])


def _shown(cell: Cell, figure: str) -> str:
    return f"{cell['figures'][figure]:.4g}" if "figures" in cell else "does not fit"


def _loss(cell: Cell, dense: Cell, figure: str) -> float:
    """Return how much worse a figure is than that of the dense model."""
    difference: float = cell["figures"][figure] - dense["figures"][figure]
    return -difference if dense["higher_is_better"] else difference


if __name__ == "__main__":
    main()
