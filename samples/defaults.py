"""Scores of the layers' defaults on AG News beside their alternatives, from several seeds.

Usage: python samples/defaults.py --data FOLDER --seeds 5 --output FOLDER
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from ag_news.claims import CANDIDATES, make_task
from ag_news.model import WIDTH
from ag_news.sample import NewsTask
from claims import interval, shown
from options import Options, data_option, make_folder
from tables import MakeTable
from torch import nn
from training import evaluate
from trials import trained

import edge_embed
from edge_embed.report.views.markdown.blocks import join, table

_BUILD = Path(__file__).parents[1] / "build" / "defaults"
_NOTE = "Means over the seeds with 95 % intervals (Student's t). *difference* is from the default with the same seed."


def _bag(layer: Callable[..., nn.Module], *sizes: int, **options: object) -> MakeTable:
    return lambda words: layer(words, WIDTH, *sizes, padding_idx=0, mode="mean", **options)


def _above_zero(words: int) -> nn.Module:
    """Return ANT with the start of the authors' code."""
    layer = edge_embed.ANTEmbeddingBag(words, WIDTH, 10, padding_idx=0, mode="mean")
    return layer.start_from(vectors=layer.anchors.detach().abs())


def _large(words: int) -> nn.Module:
    """Return ANT with anchors of N(0, 1), the start of the other samples."""
    layer = edge_embed.ANTEmbeddingBag(words, WIDTH, 10, padding_idx=0, mode="mean")
    return layer.start_from(vectors=torch.randn(10, WIDTH))


_sx = partial(_bag, edge_embed.DPQEmbeddingBag, 16, 32)
_vq = partial(_sx, variant="vq")

# Tables by method of claims.py: the default first, then its alternatives.
TABLES: Mapping[str, Mapping[str, MakeTable]] = {
    "dpq sx, K = 16, D = 32": {
        "default": _sx(),
        "norm_eps=1e-3": _sx(norm_eps=1e-3),
        "norm_momentum=0.01": _sx(norm_momentum=0.01),
        "value_gradient=softmax": _sx(value_gradient="softmax"),
    },
    "dpq vq, K = 16, D = 32": {
        "default": _vq(),
        "norm_eps=1e-3": _vq(norm_eps=1e-3),
        "norm_momentum=0.01": _vq(norm_momentum=0.01),
    },
    "ant, A = 10": {
        "default": _bag(edge_embed.ANTEmbeddingBag, 10),
        "anchors above zero": _above_zero,
        "anchors of N(0, 1)": _large,
    },
}  # fmt: skip


@click.command()
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--seeds", type=click.IntRange(min=2), default=5, show_default=True, help="Number of seeds, from 0.")
@click.option("--quick", is_flag=True, help="Run every step with fewer epochs.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=_BUILD,
    help="Folder for defaults.md, which is overwritten. Default: build/defaults.",
)
def main(data: Path, seeds: int, quick: bool, output: Path) -> None:
    """Train the classifier of AG News with each table, and write the test accuracies; progress goes to stderr."""
    make_folder(output)
    torch.set_num_threads(1)  # as in claims.py
    task = make_task(Options(data, quick, 0, output))
    scores = {
        (method, option): [_score(task, make, method, seed, quick) for seed in range(seeds)]
        for method, options in TABLES.items()
        for option, make in options.items()
    }
    command = f"python samples/defaults.py --seeds {seeds}" + " --quick" * quick
    machine = f"{platform.machine()}, one thread, torch {torch.__version__}"
    rows = [[*names, *_figures(found, scores[names[0], "default"])] for names, found in scores.items()]
    header = ["method", "option", "accuracy", "least", "difference"]
    report = join([f"`{command}` ({machine})", table(header, rows), _NOTE])
    (output / "defaults.md").write_text(report, encoding="utf-8")
    print(report, end="")


def _score(task: Callable[[], NewsTask], make: MakeTable, method: str, seed: int, quick: bool) -> float:
    """Return the accuracy on the test part after training with the method's first setting in claims.py."""
    recipe = replace(CANDIDATES[method][0], table=make)
    return evaluate(*trained(task, recipe, method, seed, quick), "test")


def _figures(scores: Sequence[float], default: Sequence[float]) -> tuple[str, str, str]:
    differences = np.subtract(scores, default).tolist()
    difference = shown(interval(differences), "+") if any(differences) else ""
    return shown(interval(scores), ""), f"{min(scores):.4g}", difference


if __name__ == "__main__":
    main()
