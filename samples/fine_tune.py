"""Fine-tunes compressed models with the loss of their own task, and compares them before and after.

The models are trained here: the language model of WikiText-2, whose table is also its output layer, and the classifier
of AG News. ``edge_embed.compress(..., trainable=True)`` replaces their tables with counts of the training data, and a
few epochs go on from there. The dense model is trained as much longer, so that the gain of the compressed one is not
that of more training alone.

Usage: python samples/fine_tune.py --data FOLDER --seeds 3
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from ag_news.data import read as read_news
from ag_news.sample import HELD_OUT, NewsTask
from ag_news.sample import RECIPES as NEWS_RECIPES
from claims import interval
from datasets import unpacked
from divergence import divergence, same_choice
from options import Options, data_option, make_folder
from results import before_and_after, write_results
from tables import table_bytes
from torch import Tensor, nn
from torch.optim.lr_scheduler import LinearLR
from training import Recipe, Task, evaluate, step, train
from trials import counts
from wikitext2.data import read, windows
from wikitext2.sample import RECIPES, WordTask

import edge_embed
from edge_embed.report.views.markdown.blocks import join

_METHODS = "dense", "dpq", "tt", "tiered"
_RATE = 1e-3  # a tenth of that of the training
_EPOCHS = 2
_QUICK_WORDS = 6_000
_TEST, _LENGTH = 10_000, 32
_FIGURES = "score", "KL", "top-1"
_BUILD = Path(__file__).parents[1] / "build" / "fine_tune"


@dataclass(frozen=True)
class Case:
    """A dense model and its task.

    Attributes:
        name: name in reports.
        task: data, loss and score.
        test_ids: ids of the test data, int64 [rows, words].
        dense: the trained model.
        ratio: compression ratio of its table.
    """

    name: str
    task: Task[Any]
    test_ids: Tensor
    dense: nn.Module
    ratio: float

    def compressed(self, method: str) -> tuple[nn.Module, str]:
        """Return a trainable model with the table compressed by a method, and the setting of the method."""
        weight = self.dense.get_parameter("table.weight").detach().numpy()
        goal: dict[str, Any] = {"ratio": self.ratio, "counts": {"table": counts(self.task, [weight])[0]}}
        small, report = edge_embed.compress(self.dense, method, modules=["table"], trainable=True, **goal)
        return small, report.tables[0].setting

    @torch.no_grad()
    def figures(self, model: nn.Module) -> dict[str, float]:
        """Return the score, and the agreement with the dense model, of a model on test data."""
        expected, found = (each.eval()(self.test_ids).flatten(0, -2) for each in (self.dense, model))
        agreement = divergence(expected, found), same_choice(expected, found)
        return dict(zip(_FIGURES, (evaluate(self.task, model, "test"), *agreement), strict=True))

    def tuned(self, model: nn.Module, seed: int) -> nn.Module:
        """Return a copy of a model after more epochs with the loss of the task, at a rate that falls to zero."""
        torch.manual_seed(seed)
        model = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
        steps = _EPOCHS * sum(1 for _ in self.task.batches())
        rates = LinearLR(optimizer, 1.0, 0.0, steps)
        for _ in range(_EPOCHS):
            model.train()
            for batch in self.task.batches():
                step(self.task, model, optimizer, batch)
                rates.step()
        return model.eval()


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Less data, one epoch of the dense models.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=_BUILD, help="Folder for results.")
def main(data: Path, seeds: int, quick: bool, output: Path) -> None:
    """Fine-tune two compressed models, and write their figures to figures.json and results.md."""
    make_folder(output)
    rows = list[dict[str, Any]]()
    command = f"python samples/fine_tune.py --seeds {seeds}" + " --quick" * quick
    for case in _cases(Options(data, quick, 0, output)):
        for row in _measured(case, seeds):
            rows.append(row)
            click.echo(f"{case.name}: {row}", err=True)
            write_results(output, command, rows, markdown)


def _cases(options: Options) -> Iterator[Case]:
    torch.manual_seed(options.seed)
    with unpacked(options.data, "wikitext2-valtest") as folder:
        text = read(folder, least=5).begin(_QUICK_WORDS) if options.quick else read(folder, least=3)
    ids = windows(text.test[:_TEST], _LENGTH)[:, :-1]
    yield _case("WikiText-2", WordTask(text), ids, RECIPES["dense"], options.quick, ratio=16)
    torch.manual_seed(options.seed)
    with unpacked(options.data, "agnews20k") as folder:
        news = NewsTask(*read_news(folder), held_out=HELD_OUT)
    yield _case("AG News", news, news.test.ids, NEWS_RECIPES["dense"], options.quick, ratio=64)


def _case(name: str, task: Task[Any], test_ids: Tensor, recipe: Recipe, quick: bool, ratio: float) -> Case:
    return Case(name, task, test_ids, train(task, recipe, name, 1 if quick else recipe.epochs), ratio)


def _measured(case: Case, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each method, before and after."""
    for method in _METHODS:
        small, setting = (case.dense, "") if method == "dense" else case.compressed(method)
        after = [case.figures(case.tuned(small, seed)) for seed in range(seeds)]
        yield {
            "model": f"{case.name}, {case.task.metric}",
            "method": f"{method}: {setting}" if setting else method,
            "bytes": table_bytes(small.get_submodule("table")),
            "before": case.figures(small),
            "after": {name: interval([each[name] for each in after]) for name in _FIGURES},
        }


def markdown(results: Mapping[str, Any]) -> str:
    """Return the report."""
    note = (
        "KL divergence and top-1 agreement are those to the dense model as it was first trained. "
        f"{_EPOCHS} epochs at a rate of {_RATE:g}, which falls to zero. Means over the seeds, with 95 % intervals."
    )
    figures = before_and_after(results["rows"], _FIGURES, "fine-tuned")
    return join(["# Fine-tuning of compressed models", f"`{results['command']}`", note, figures])


if __name__ == "__main__":
    main()
