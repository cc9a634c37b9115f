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
import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))

from datasets import unpacked
from options import Options
from pretrained import recommender
from pretrained.sample import RECOMMENDER_SIZES
from tiers import language_model, news
from tiers.case import Case, weight_of
from tiers.contenders import CONTENDERS

import edge_embed
from edge_embed.errors import SizeError
from edge_embed.fitting import error_feedback

_RATIOS, _METHODS, _SEEDS = (8, 16, 32), ("dpq", "rows"), 3


Figures = tuple[float, float]  # of the model, and the relative error of the rows


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--products", default=error_feedback._PRODUCTS, show_default=True, help="Weight of inner products.")
def main(data: Path, products: float) -> None:
    """Print a row for each model, method and ratio."""
    print(f"{'':36}{'nearest codes':^30}{'fed codes':^30}ratio   of errors of rows")
    for case in _cases(data):
        for method in _METHODS:
            for ratio in _RATIOS:
                with contextlib.suppress(SizeError):
                    _print_row(
                        f"{case.name:20}{method:8}{ratio:4}x", products, partial(_divergence, case, method, ratio)
                    )
    _print_row(f"{'films, same films':20}{'dpq':8}  10x", products, partial(_same_films, _films(data)))


def _print_row(name: str, products: float, figures: Callable[[int], Figures]) -> None:
    """Print the figures of all seeds, without feedback and with it."""
    found = []
    for strength in (0.0, products):
        with mock.patch.object(error_feedback, "_PRODUCTS", strength):
            found.append(np.array([figures(seed) for seed in range(_SEEDS)]))  # [seeds, 2]
    shown = "".join(
        f"{each.mean():10.5f} ({each.min():.5f} to {each.max():.5f})" for each in (one[:, 0] for one in found)
    )
    ratio, of_errors = found[1].mean(0) / found[0].mean(0)
    print(f"{name}  {shown}  {ratio:6.2f}  {of_errors:6.3f}", flush=True)


def _cases(data: Path) -> Iterator[Case]:
    options = Options(data, quick=False, seed=0, output=Path())
    yield from news.cases(options)
    yield from language_model.cases(options)


def _divergence(case: Case, method: str, ratio: float, seed: int) -> Figures:
    rows, _, _ = CONTENDERS[method](case, ratio, seed)
    ((name, found),) = rows.items()
    dense = weight_of(case.model, name).detach()
    return case.figures(rows)["KL"], float((found - dense).norm() / dense.norm())


def _films(data: Path) -> nn.Module:
    with unpacked(data, "ncf-ml1m-weights") as folder:
        return recommender.load(folder)


def _same_films(model: nn.Module, seed: int) -> Figures:
    """Return the share of equal recommendations of 1,000 random users, and the larger error of both tables."""
    torch.manual_seed(seed)
    num_users, num_items = (len(model.state_dict()[f"{name}.weight"]) for name in ("users", "items"))
    users = torch.randperm(num_users)[:1000]
    sizes = RECOMMENDER_SIZES["dpq"]
    small, report = edge_embed.compress(model, "dpq", modules=["users", "items"], seed=seed, **sizes)
    found, expected = (recommender.recommended(each, users, num_items) for each in (small, model))
    errors = [table.fidelity.relative_error for table in report.tables if table.fidelity]
    return recommender.in_common(found, expected), max(errors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
