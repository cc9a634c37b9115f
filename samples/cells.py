"""Cells of a comparison: the figures of one method on one model at one ratio, from one seed, in files that grow."""

import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click
import torch
from claims import interval
from options import Options, data_option, make_folder
from tiers import language_model, news, recommenders, sentences, word_vectors
from tiers.case import Case
from tiers.contenders import OTHER, Contender

from edge_embed.errors import EdgeEmbedError
from edge_embed.files import new_file

Cell = dict[str, Any]
Command = Callable[..., None]

CASES: Mapping[str, Callable[..., Iterator[Case]]] = {
    "words": language_model.cases,
    "items": recommenders.cases,
    "news": news.cases,
    "sentences": sentences.cases,
    "vectors": word_vectors.cases,
}
DENSE = "dense"
_BUILD = Path(__file__).parents[1] / "build" / "tiers"
# Methods without chance: the same result from every seed, unless the model differs.
_CERTAIN = {
    "rows",
    "tt",
    "tr",
    "low_rank",
    "trimming",
    "rounding, rows",
    "rounding, columns",
    "svd",
    "quotient-remainder",
}


def cells_options(methods: Iterable[str], written: str) -> Callable[[Command], Command]:
    """Return a decorator with the options of a command that fills cells.

    Args:
        methods: names of its methods.
        written: names of the files that it writes.
    """
    help_of_output = f"Folder for a JSON file per case, {written}. Finished cells in it are not run again."
    options = (
        data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True),
        click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), help="Models. [all]"),
        click.option("--method", "methods", multiple=True, type=click.Choice(list(methods)), help="Methods. [all]"),
        click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds."),
        click.option("--quick", is_flag=True, help="Smaller models and fewer texts."),
        click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=_BUILD, help=help_of_output),
    )
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def run_cells(
    options: Options,
    names: Sequence[str],
    seeds: int,
    ratios: Sequence[int],
    methods: Mapping[str, Contender],
) -> list[Cell]:
    """Return all cells of a folder, after adding those that are not in it yet; each of `CASES` has a file of its own.

    Several processes may run, each with other names.

    Args:
        options: options of the command.
        names: names of `CASES`; all if empty.
        seeds: number of seeds.
        ratios: compression ratios.
        methods: methods by name; one without chance runs once on a model that is the same for every seed.
    """
    make_folder(options.output)
    torch.set_num_threads(1)
    for name in names or CASES:
        file = options.output / f"{name}.json"
        cells = read_cells(file, options.quick)
        for seed in range(seeds):
            for case in CASES[name](replace(options, seed=seed)):
                for cell in measured(case, methods, ratios, seed, cells):
                    cells.append(cell)
                    write_cells(file, options.quick, cells)
    return all_cells(options.output, options.quick)


def all_cells(folder: Path, quick: bool) -> list[Cell]:
    """Return the cells of all files of a folder."""
    return [cell for name in CASES for cell in read_cells(folder / f"{name}.json", quick)]


def measured(
    case: Case, contenders: Mapping[str, Contender], ratios: Sequence[int], seed: int, begun: Sequence[Cell]
) -> Iterator[Cell]:
    """Yield a cell for the dense model and for each ratio and method, but for those that are begun."""
    found: Cell = {"case": case.name, "seed": seed}
    known = {key_of(cell) for cell in begun}
    dense = found | {"ratio": 1, "method": DENSE}
    if key_of(dense) not in known:
        nbytes, higher = sum(case.nbytes.values()), case.higher_is_better
        yield dense | {"figures": case.figures({}), "bytes": nbytes, "higher_is_better": higher}
    for ratio in ratios:
        for method, contender in contenders.items():
            cell = found | {"ratio": ratio, "method": method}
            is_again = seed > 0 and not case.is_trained and method in _CERTAIN
            if key_of(cell) in known or is_again or (method == OTHER and not case.other_counts):
                continue
            began = time.process_time()
            try:
                rows, nbytes, setting = contender(case, ratio, seed)
            except EdgeEmbedError as error:
                yield cell | {"error": str(error)}
                continue
            cell |= {"seconds": round(time.process_time() - began, 1), "bytes": nbytes, "setting": setting}
            figures = case.figures(rows)
            yield cell | {"figures": figures}
            shown = ", ".join(f"{name} {value:.5g}" for name, value in figures.items())
            click.echo(f"{case.name} {ratio}x {method}: {shown}", err=True)


def key_of(cell: Cell) -> tuple[Any, ...]:
    """Return what identifies a cell."""
    return cell["case"], cell["seed"], cell["ratio"], cell["method"]


def read_cells(file: Path, quick: bool) -> list[Cell]:
    """Return the cells of a file; none if there is no such file.

    Raises:
        click.ClickException: the file is of another kind, or of a quick run and this one is not, or the other way.
    """
    if not file.exists():
        return []
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        was_quick, cells = found["quick"], found["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"--output: {file} cannot be read: {error}; remove it") from error
    if was_quick != quick:
        kind = "with" if was_quick else "without"
        raise click.ClickException(f"--output: {file} is of a run {kind} --quick; give another folder, or the same")
    return list(cells)


def write_cells(file: Path, quick: bool, cells: Sequence[Cell]) -> None:
    """Replace the file."""
    results = {
        "quick": quick,
        "machine": f"{platform.machine()}, one thread, torch {torch.__version__}",
        "cells": list(cells),
    }
    with new_file(file, force=True) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def cells_of(cells: Sequence[Cell], ratio: int, method: str) -> list[Cell]:
    """Return the cells of a method at a ratio."""
    return [cell for cell in cells if (cell["ratio"], cell["method"]) == (ratio, method)]


def values_of(cells: Sequence[Cell], ratio: int, method: str, figure: str) -> dict[int, float]:
    """Return the figure of each seed; empty if the method does not fit in one of them."""
    found = cells_of(cells, ratio, method)
    whole = all("figures" in cell for cell in found)
    return {cell["seed"]: cell["figures"][figure] for cell in found} if whole else {}


def pairs_of(one: Mapping[int, float], other: Mapping[int, float]) -> list[tuple[float, float]]:
    """Return the figures of two methods of each seed; a method without chance may have those of one seed."""
    seeds = sorted(one.keys() | other.keys())
    return [(one.get(seed, one[0]), other.get(seed, other[0])) for seed in seeds]


def mean_of(values: Mapping[int, float]) -> float:
    """Return the mean over the seeds."""
    return interval(list(values.values()))["mean"]
