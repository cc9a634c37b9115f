"""Compares tiered tables with every other method at no more bytes, without training.

Usage: python samples/compare_tiers.py --data FOLDER --seeds 3 --output FOLDER
"""

import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch
from claims import interval, shown
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
A row shows the best other method by the figure itself, which favours it. *difference* is the figure of the tiered table
minus that of this method within a seed. Figures are means over the seeds with 95 % intervals (Student's t). A seed
changes the models that are trained here, and the fits."""

Cell = dict[str, Any]


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--case", "names", multiple=True, type=click.Choice(list(_CASES)), help="Models. [all]")
@click.option("--method", "methods", multiple=True, type=click.Choice(list(CONTENDERS)), help="Methods to run. [all]")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Smaller models and fewer texts.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    help="Folder for cells.json and results.md. Cells of other models and methods in it are kept.",
)
def main(data: Path, names: Sequence[str], methods: Sequence[str], seeds: int, quick: bool, output: Path) -> None:
    """Compress the tables of several models with each method, and write the figures of the models."""
    options = Options(data, quick, 0, output)
    make_folder(output)
    torch.set_num_threads(1)
    file = output / "cells.json"
    cells = _read(file)
    command = f"python samples/compare_tiers.py --seeds {seeds}" + " --quick" * quick
    for name, seed in ((name, seed) for name in names or _CASES for seed in range(seeds)):
        for case in _CASES[name](replace(options, seed=seed)):
            for cell in _measured(case, methods or list(CONTENDERS), seed):
                cells = [old for old in cells if _key(old) != _key(cell)] + [cell]
                _write(file, command, cells)
    report = markdown(cells, command)
    (output / "results.md").write_text(report, encoding="utf-8")
    print(report, end="")


def _measured(case: Case, methods: Sequence[str], seed: int) -> Iterator[Cell]:
    """Yield a cell for the dense model and for each ratio and method."""
    found: Cell = {"case": case.name, "seed": seed}
    dense = case.figures({})
    yield found | {"ratio": 1, "method": "dense", "figures": dense, "bytes": sum(case.nbytes.values()),
                   "higher_is_better": case.higher_is_better}  # fmt: skip
    for ratio in _RATIOS:
        for method in methods:
            if method == OTHER and not case.other_counts:
                continue
            cell = found | {"ratio": ratio, "method": method}
            began = time.process_time()
            try:
                rows, nbytes, setting = CONTENDERS[method](case, ratio, seed)
            except EdgeEmbedError as error:
                yield cell | {"error": str(error)}
                continue
            cell |= {"seconds": round(time.process_time() - began, 1), "bytes": nbytes, "setting": setting}
            figures = case.figures(rows)
            yield cell | {"figures": figures}
            shown = ", ".join(f"{name} {value:.5g}" for name, value in figures.items())
            click.echo(f"{case.name} {ratio}x {method}: {shown}", err=True)


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell["case"], cell["seed"], cell["ratio"], cell["method"]


def _read(file: Path) -> list[Cell]:
    if not file.exists():
        return []
    try:
        found: list[Cell] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise click.ClickException(f"--output: {file} cannot be read: {error}; remove it") from error
    return found


def _write(file: Path, command: str, cells: Sequence[Cell]) -> None:
    results = {
        "command": command,
        "machine": f"{platform.machine()}, one thread, torch {torch.__version__}",
        "cells": list(cells),
    }
    with new_file(file, force=True) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def markdown(cells: Sequence[Cell], command: str) -> str:
    """Return the table of the figures, a row for each model and ratio, and that of counts of another domain."""
    header = ["model, figure", "dense", "ratio", "tiered", "best other", "method", "difference", "plan"]
    rows, others, won = [], [], 0
    for name in dict.fromkeys(cell["case"] for cell in cells):
        own = [cell for cell in cells if cell["case"] == name]
        dense = [cell for cell in own if cell["method"] == "dense"]
        figure, sign = next(iter(dense[0]["figures"])), -1 if dense[0]["higher_is_better"] else 1
        for ratio in _RATIOS:
            found = {method: _values(own, ratio, method, figure) for method in CONTENDERS}
            flat = [method for method in found if found[method] and method not in (_TIERED, OTHER)]
            tiered, plans = found[_TIERED], _cells(own, ratio, _TIERED)
            if not plans or not flat:
                continue
            best = min(flat, key=lambda method: sign * _mean(found[method]))
            won += bool(tiered) and sign * _mean(tiered) < sign * _mean(found[best])
            differences = [tiered[seed] - found[best][seed] for seed in tiered.keys() & found[best].keys()]
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


def _cells(cells: Sequence[Cell], ratio: int, method: str) -> list[Cell]:
    return [cell for cell in cells if (cell["ratio"], cell["method"]) == (ratio, method)]


def _values(cells: Sequence[Cell], ratio: int, method: str, figure: str) -> dict[int, float]:
    """Return the figure of each seed; empty if the method does not fit in one of them."""
    found = _cells(cells, ratio, method)
    whole = all("figures" in cell for cell in found)
    return {cell["seed"]: cell["figures"][figure] for cell in found} if whole else {}


def _mean(values: Mapping[int, float]) -> float:
    return interval(list(values.values()))["mean"]


def _shown(values: Mapping[int, float]) -> str:
    return shown(interval(list(values.values())), "") if values else "does not fit"


if __name__ == "__main__":
    main()
