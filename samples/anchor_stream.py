"""nbANT on a stream of texts (online nbANT): each part arrives once, and the number of anchors follows eq. (34).

The classifier of AG News trains on a part until the loss on a tenth of it no longer falls. The search takes a step with
that loss, and the next part follows. Beside it, ANT with a fixed number of anchors sees the same stream.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), sec. 4.3 and figure 8.

Usage: python samples/anchor_stream.py --data FOLDER --seeds 5
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from ag_news.claims import make_task, table_of_anchors
from ag_news.model import Classifier
from ag_news.sample import NewsTask
from claims import interval, shown
from options import Options, data_option, make_folder
from results import write_results
from training import Recipe, evaluate, optimizer_of, step

import edge_embed
from edge_embed.layers.anchor_search import SearchStep
from edge_embed.report.views.markdown.blocks import join, table
from edge_embed.study.plot import draw_search

_PARTS, _QUICK_PARTS = 20, 3
_MOST_EPOCHS = 8  # of a part
_RATE, _PENALTY, _ANCHOR_PENALTY = 1e-2, 1e-6, 1e-2
_STARTS = 2, 10
_BUILD = Path(__file__).parents[1] / "build" / "anchor_stream"
_NOTE = f"""\
Each part of the stream is seen once, in at most {_MOST_EPOCHS} epochs. *anchors* and *nonzeros*: after the last part.
*accuracy*: of the last model on the test. Means over the seeds with 95 % intervals (Student's t), and the anchors of
each seed. lambda_1 = {_ANCHOR_PENALTY:g}, lambda_2 = {_PENALTY:g}."""


@dataclass(frozen=True)
class Passed:
    """Result of a stream.

    Attributes:
        history: a step for each part.
        accuracy: share of the test whose class is found, after the last part.
    """

    history: Sequence[SearchStep]
    accuracy: float


def passed(task: NewsTask, num_anchors: int, is_searching: bool, parts: int) -> Passed:
    """Train a table on a stream, with a search or with a fixed number of anchors.

    Args:
        task: texts, whose order is that of the stream.
        num_anchors: number of anchors at the start.
        is_searching: whether the number changes; the history has one step otherwise.
        parts: number of parts.
    """
    recipe = Recipe(table_of_anchors(num_anchors), 1, 1, _RATE, _PENALTY)
    model = recipe.model_of(task)
    optimizer = optimizer_of(model, task.rate, recipe)
    assert isinstance(optimizer, edge_embed.ProximalOptimizer)
    search = edge_embed.AnchorSearch(optimizer, _ANCHOR_PENALTY)
    for at, part in enumerate(split(task, parts)):
        loss = settle(part, model, optimizer)
        if is_searching or at == parts - 1:
            search.step(loss)
    return Passed(search.history, evaluate(task, model, "test"))


def split(task: NewsTask, parts: int) -> list[NewsTask]:
    """Return tasks of equal parts of the training texts, of which a tenth is for validation."""
    size = len(task.training) // parts
    pieces = [task.training[at * size : (at + 1) * size] for at in range(parts)]
    return [NewsTask(task.vocabulary, piece, task.test, held_out=size // 10) for piece in pieces]


def settle(task: NewsTask, model: Classifier, optimizer: torch.optim.Optimizer) -> float:
    """Train until the loss on validation texts no longer falls, and return the last one."""
    best = math.inf
    for _ in range(_MOST_EPOCHS):
        model.train()
        for batch in task.batches():
            step(task, model, optimizer, batch)
        with torch.no_grad():
            loss = float(task.loss(model.eval(), (task.validation.ids, task.validation.classes)))
        if loss >= best:
            break
        best = loss
    return loss


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=2), default=5, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer texts and parts.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    show_default="build/anchor_stream",
    help="Folder for results.",
)
def main(data: Path, seeds: int, quick: bool, output: Path) -> None:
    """Train on a stream with and without a search, and write figures.json, results.md and plots."""
    make_folder(output)
    torch.set_num_threads(1)
    make, parts = make_task(Options(data, quick, 0, output)), _QUICK_PARTS if quick else _PARTS
    command = f"python samples/anchor_stream.py --seeds {seeds}" + " --quick" * quick
    rows = list[dict[str, Any]]()
    for start in _STARTS:
        for is_searching in (True, False):
            found = [_seeded(make, seed, start, is_searching, parts) for seed in range(seeds)]
            rows.append(_row(start, is_searching, found))
            if is_searching:
                draw_search(found[0].history, output / f"from_{start}.svg", force=True)
    write_results(output, command, rows, markdown)


def _seeded(make: Callable[[], NewsTask], seed: int, start: int, is_searching: bool, parts: int) -> Passed:
    torch.manual_seed(seed)
    found = passed(make(), start, is_searching, parts)
    click.echo(f"from {start}, seed {seed}: {found.history[-1].num_anchors[0]} anchors, {found.accuracy:.4f}", err=True)
    return found


def _row(start: int, is_searching: bool, found: Sequence[Passed]) -> dict[str, Any]:
    return {
        "start": start,
        "search": is_searching,
        "anchors": [[step.num_anchors[0] for step in one.history] for one in found],
        "nonzeros": interval([one.history[-1].num_nonzeros for one in found]),
        "accuracy": interval([one.accuracy for one in found]),
    }


def markdown(results: Mapping[str, Any]) -> str:
    """Return the report."""
    header = ["begins with", "search", "anchors", "nonzeros", "accuracy"]
    lines = [
        [
            str(row["start"]),
            "yes" if row["search"] else "no",
            ", ".join(str(anchors[-1]) for anchors in row["anchors"]),
            shown(row["nonzeros"], ""),
            shown(row["accuracy"], ""),
        ]
        for row in results["rows"]
    ]
    return join(["# Anchors on a stream", f"`{results['command']}`", _NOTE, table(header, lines, texts=2)])


if __name__ == "__main__":
    main()
