"""Figures of training: scores by steps, as in figure 4 of the ANT paper, and codes, as in figures 5 and 6 of DPQ's.

Usage: python samples/curves.py ag_news --data FOLDER --seeds 5 --output FOLDER
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from candidates import Candidates, one_of_each
from claims import interval
from matplotlib.figure import Figure
from options import Options, data_option, make_folder
from tables import tables
from torch import nn
from training import Recipe, Task, evaluate, train

import edge_embed
from edge_embed.report.views.svg import write_svg
from edge_embed.study.codes import code_changes, code_usage
from edge_embed.study.plot import draw_usage

_POINTS, _QUICK_POINTS = 40, 4  # at which a training run is measured
_SHOWN = ("dense", "dpq sx", "dpq vq", "ant", "tt")
_HERE = Path(__file__).parent
_BUILD = _HERE.parent / "build" / "curves"

Curve = list[tuple[int, float]]  # step, and a score or a share of codes


@click.command()
@click.argument("sample", type=click.Choice(("ag_news", "sst2", "wikitext2")))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer epochs, texts and points.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for curves.json and the figures, which are overwritten. Default: build/curves/SAMPLE.",
)
def main(sample: str, data: Path, seeds: int, quick: bool, output: Path | None) -> None:
    """Train models of a SAMPLE with a dense table and one of each method, and draw what happens meanwhile.

    Settings are those that validation chose for results.json of the sample. Codes are those of the first seed.
    """
    options = Options(data, quick, 0, output or _BUILD / sample)
    make_folder(options.output)
    torch.set_num_threads(1)
    module = import_module(f"{sample}.claims")
    recipes, make_task = chosen(sample, module.CANDIDATES), module.make_task(options)
    curves, changes, usage = defaultdict[str, list[Curve]](list), dict[str, Curve](), dict[str, Any]()
    for seed in range(seeds):
        for method, recipe in recipes.items():
            torch.manual_seed(seed)
            task = make_task()
            epochs = recipe.quick_epochs if quick else recipe.epochs
            watched = Watched(task, epochs, quick)
            model = train(task, recipe, f"{method}, seed {seed}", epochs, watched.observe)
            curves[method].append(watched.scores)
            table = tables(model)[0]
            if seed == 0 and isinstance(table, edge_embed.DPQEmbedding):
                changes[method], usage[method] = watched.changes, code_usage(table)
    figures = {"metric": task.metric, "scores": curves, "changes": changes}
    (options.output / "curves.json").write_text(json.dumps(figures) + "\n", encoding="utf-8")
    draw_curves(curves, f"{task.metric} on validation", options.output / "convergence.svg")
    draw_usage(usage, options.output / "usage.svg", force=True)
    each = {method: [curve] for method, curve in changes.items()}
    draw_curves(each, "fraction of changed codes", options.output / "changes.svg")


def chosen(sample: str, candidates: Candidates) -> dict[str, Recipe]:
    """Return the recipe of each kind of table with the setting that results.json of the sample has for it."""
    results = json.loads((_HERE / sample / "results.json").read_text(encoding="utf-8"))
    settings = {row["method"]: row["setting"] for row in results["methods"]}
    kinds = one_of_each(candidates)
    return {
        method: recipes[settings[method]] for method, recipes in kinds.items() if method.partition(",")[0] in _SHOWN
    }


class Watched:
    """Scores and changes of codes at some steps of a training run, which stays as it is.

    Args:
        task: the task that is trained.
        epochs: passes over its data.
        quick: whether to measure a few times only.
    """

    def __init__(self, task: Task[Any], epochs: int, quick: bool) -> None:
        self.task = task
        with torch.random.fork_rng():
            steps = epochs * sum(1 for _ in task.batches())
        self.every = max(1, steps // (_QUICK_POINTS if quick else _POINTS))
        self.step, self.scores, self.changes = 0, Curve(), Curve()
        self._before: edge_embed.PackedDPQ | None = None

    def observe(self, model: nn.Module) -> None:
        """Measure a model after a step."""
        self.step += 1
        if self.step % self.every:
            return
        with torch.random.fork_rng():
            self.scores.append((self.step, evaluate(self.task, model, "validation")))
        table = tables(model)[0]
        if isinstance(table, edge_embed.DPQEmbedding):
            packed = table.to_packed()
            if self._before is not None:
                self.changes.append((self.step, code_changes(self._before, packed)))
            self._before = packed
        model.train()


def draw_curves(curves: Mapping[str, Sequence[Curve]], label: str, path: Path) -> None:
    """Draw the mean of each method over the seeds against the steps, within its 95 % interval."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for method, seeds in curves.items():
        steps = [step for step, _ in seeds[0]]
        found = [interval(scores) for scores in zip(*([score for _, score in curve] for curve in seeds), strict=True)]
        mean, half = (np.array([each[part] for each in found]) for part in ("mean", "half"))
        (line,) = axes.plot(steps, mean, label=method)
        if len(seeds) > 1:
            axes.fill_between(steps, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="step", ylabel=label)
    axes.legend(fontsize="small")
    write_svg(figure, path)


if __name__ == "__main__":
    main()
