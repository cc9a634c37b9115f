"""Figures of models whose tables have fed codes beside those with the nearest codes, at the same bytes.

``python tests/benchmarks/error_feedback.py --data FOLDER`` prints means and ranges over three seeds: the KL divergence
of the classifier of news and of the language model of `samples/compare_tiers.py`, with counts, and the share of equal
recommendations of the recommender of `samples/pretrained`, without counts.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import click
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))

from datasets import unpacked
from options import Options
from pretrained import recommender
from pretrained.sample import RECOMMENDER_SIZES
from tiers import language_model, news
from tiers.case import Case
from tiers.contenders import CONTENDERS

import edge_embed
from edge_embed.errors import SizeError
from edge_embed.fitting import error_feedback

_RATIOS, _METHODS, _SEEDS = (8, 16, 32), ("dpq", "rows"), 3


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
def main(data: Path) -> None:
    """Print a row for each model, method and ratio."""
    print(f"{'':36}{'nearest codes':^30}{'fed codes':^30}ratio")
    for case in _cases(data):
        for method in _METHODS:
            for ratio in _RATIOS:
                with contextlib.suppress(SizeError):
                    _print_row(f"{case.name:20}{method:8}{ratio:4}x", partial(_divergence, case, method, ratio))
    _print_row(f"{'films, same films':20}{'dpq':8}  10x", partial(_same_films, _films(data)))


def _print_row(name: str, figure: Callable[[int], float]) -> None:
    """Print the figure of each seed, without feedback and with it."""
    found = []
    for products in (0.0, error_feedback._PRODUCTS):
        with mock.patch.object(error_feedback, "_PRODUCTS", products):
            found.append([figure(seed) for seed in range(_SEEDS)])
    means = [sum(each) / len(each) for each in found]
    both = zip(means, found, strict=True)
    shown = "".join(f"{mean:10.5f} ({min(each):.5f} to {max(each):.5f})" for mean, each in both)
    print(f"{name}  {shown}  {means[1] / means[0]:6.2f}", flush=True)


def _cases(data: Path) -> Iterator[Case]:
    options = Options(data, quick=False, seed=0, output=Path())
    yield from news.cases(options)
    yield from language_model.cases(options)


def _divergence(case: Case, method: str, ratio: float, seed: int) -> float:
    return case.figures(CONTENDERS[method](case, ratio, seed)[0])["KL"]


def _films(data: Path) -> nn.Module:
    with unpacked(data, "ncf-ml1m-weights") as folder:
        return recommender.load(folder)


def _same_films(model: nn.Module, seed: int) -> float:
    """Return the share of equal recommendations of 1,000 random users."""
    torch.manual_seed(seed)
    num_users, num_items = (len(model.state_dict()[f"{name}.weight"]) for name in ("users", "items"))
    users = torch.randperm(num_users)[:1000]
    sizes = RECOMMENDER_SIZES["dpq"]
    small = edge_embed.compress(model, "dpq", modules=["users", "items"], seed=seed, **sizes).model
    found, expected = (recommender.recommended(each, users, num_items) for each in (small, model))
    return recommender.in_common(found, expected)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
