"""Fits compressed language models to the outputs of the dense ones, and compares both on text that it has not seen.

The models are that of the Penn Treebank, from other authors (both tables are compressed), and that of WikiText-2, which
is trained here (one table, used twice). They are compressed to a ratio without data by ``auto``, and by tiers with the
counts of the training text; then both once more by examples of that text, with several seeds of the fit.

Usage: python samples/calibration.py --data FOLDER --seeds 3
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import torch
from claims import interval
from datasets import unpacked
from divergence import divergence, same_choice
from options import Options, data_option, make_folder
from pretrained import language_model
from results import before_and_after, write_results
from tiers.language_model import training_words
from torch import Tensor, nn
from torch.nn import functional
from training import train
from wikitext2.data import read
from wikitext2.sample import RECIPES, WordTask

import edge_embed
from edge_embed.calibration.calibrate import STEPS, calibrated
from edge_embed.calibration.compress import weighed
from edge_embed.calibration.examples import read_examples
from edge_embed.calibration.stored_values import with_values
from edge_embed.compression.job import Job
from edge_embed.compression.plan import Plan
from edge_embed.compression.programs import tables_of
from edge_embed.program.program import Program
from edge_embed.report.results.compressed import CompressedTable
from edge_embed.report.views.markdown.blocks import join
from edge_embed.workflow import load

_PIECE, _TOGETHER = 128, 2  # words, and pieces of a step
_CONTEXT = 250
_TEST, _QUICK_WORDS = 10_000, 6_000
_METHODS = "auto, no data", "tiered, counts"
_BUILD = Path(__file__).parents[1] / "build" / "calibration"
_FIGURES = "KL", "top-1", "perplexity"


@dataclass(frozen=True)
class Case:
    """A dense language model, and its texts.

    Attributes:
        name: name in reports.
        model: the dense model.
        tables: layers whose tables are compressed.
        training: words that counts and calibration see, ids int64 [words].
        test: words that are only measured.
    """

    name: str
    model: nn.Module
    tables: Sequence[str]
    training: Tensor
    test: Tensor

    @torch.no_grad()
    def figures(self, tried: Program) -> dict[str, float]:
        """Return the figures of a compressed model on the test words, in rows of 250."""
        rows = self.test.unfold(0, _CONTEXT + 1, _CONTEXT)  # the last word of a row begins the next
        expected, found = (run(rows[:, :-1]).flatten(0, 1) for run in (self.model, lambda ids: tried.run(ids)[0]))
        loss = functional.cross_entropy(found, rows[:, 1:].flatten())
        return dict(
            zip(_FIGURES, (divergence(expected, found), same_choice(expected, found), float(loss.exp())), strict=True)
        )


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--ratio", type=float, default=16, show_default=True, help="Compression ratio of the tables.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer words and steps.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=_BUILD, help="Folder for results.")
def main(data: Path, ratio: float, seeds: int, quick: bool, output: Path) -> None:
    """Calibrate two language models, and write their figures to figures.json and results.md."""
    make_folder(output)
    rows = list[dict[str, Any]]()
    command = f"python samples/calibration.py --ratio {ratio:g} --seeds {seeds}" + " --quick" * quick
    for case in language_models(Options(data, quick, 0, output)):
        for method in _METHODS:
            rows.append(_measured(case, method, ratio, seeds, quick))
            click.echo(f"{case.name}, {method}: {rows[-1]}", err=True)
            write_results(output, command, rows, markdown)


def language_models(options: Options) -> Iterator[Case]:
    """Yield both models."""
    limit = _QUICK_WORDS if options.quick else None
    with unpacked(options.data, "ptb-rnnlm") as folder, unpacked(options.data, "agnews20k") as news:
        model = language_model.load(folder / "ptb_rnnlm_100.npz")
        words = (folder / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").split()
        training = torch.tensor(training_words(news / "train_20k.csv", words))[:limit]
        test = language_model.business_news(news / "test.csv", words, limit or _TEST)
    yield Case("Penn Treebank", model, ["table", "output"], training, test)
    with unpacked(options.data, "wikitext2-valtest") as folder:
        text = read(folder, least=3)
    text = text if limit is None else text.begin(limit)
    torch.manual_seed(options.seed)
    recipe = RECIPES["dense"]
    trained = train(WordTask(text), recipe, "dense", recipe.quick_epochs if options.quick else recipe.epochs)
    yield Case("WikiText-2", trained, ["table"], text.training, text.test[:_TEST])


def _measured(case: Case, method: str, ratio: float, seeds: int, quick: bool) -> dict[str, Any]:
    """Return the figures of one model and method, before and after the calibration."""
    dense = load(case.model, (case.training[:32].view(2, -1),))
    counts = case.training.bincount(minlength=len(case.model.get_submodule(case.tables[0]).get_parameter("weight")))
    given: dict[str, Any] = {} if method == _METHODS[0] else {"counts": dict.fromkeys(case.tables, counts)}
    name = method.partition(",")[0]
    plain, report = edge_embed.compress(dense, name, modules=case.tables, ratio=ratio, **given)
    steps = 20 if quick else STEPS
    with TemporaryDirectory() as folder:
        examples = read_examples(dense, write_examples(case.training, Path(folder)), None)
    job = Job(Plan(name, ratio), case.tables, **given)
    small, targets = weighed(dense, tables_of(dense, job), examples, job)
    found = []
    for seed in range(seeds):
        values, _ = calibrated(dense, small, targets, examples, steps, seed, job.progress)
        found.append(case.figures(with_values(small.model, values)))
    return {
        "model": case.name,
        "method": f"{method}: {_setting(report.tables)}; by examples: {_setting(small.report.tables)}",
        "bytes": _packed_bytes(small.report.tables),
        "bytes before": _packed_bytes(report.tables),
        "steps": steps,
        "before": case.figures(plain),
        "by examples, before the fit": case.figures(small.model),
        "after": {name: interval([each[name] for each in found]) for name in _FIGURES},
    }


def _packed_bytes(tables: Sequence[CompressedTable]) -> int:
    return sum(each.fidelity.packed_bytes for each in tables if each.fidelity)


def _setting(tables: Sequence[CompressedTable]) -> str:
    return "; ".join(each.setting if each.plan is None else str(each.plan) for each in tables)


def write_examples(words: Tensor, folder: Path) -> Path:
    """Write words in pieces, a few of which are a case."""
    cases = words[: len(words) // _PIECE * _PIECE].view(-1, _PIECE).split(_TOGETHER)
    path, step = folder / "examples.npz", -(-len(cases) // 1000)
    given: dict[str, Any] = {f"{at}/ids": case.numpy() for at, case in enumerate(cases[::step])}
    np.savez(path, **given)
    return path


def markdown(results: Mapping[str, Any]) -> str:
    """Return the report."""
    note = "KL divergence and top-1 agreement are those to the dense model. Means over the seeds, with 95 % intervals."
    figures = before_and_after(results["rows"], _FIGURES, "calibrated")
    return join(["# Calibration of language models", f"`{results['command']}`", note, figures])


if __name__ == "__main__":
    main()
