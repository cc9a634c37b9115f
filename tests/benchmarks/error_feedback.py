"""Figures of models whose tables have fed codes beside those with the nearest codes, at the same bytes.

``python tests/benchmarks/error_feedback.py --data FOLDER`` takes the classifier of news and the tables of the language
model of `samples/compare_tiers.py`, and prints the mean and the range of the KL divergence over three seeds.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))

from options import Options
from tiers import language_model, news
from tiers.case import Case
from tiers.contenders import CONTENDERS

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
                try:
                    found = [_figures(case, method, ratio, products) for products in (0.0, error_feedback._PRODUCTS)]
                except SizeError:
                    continue
                means = [sum(each) / len(each) for each in found]
                shown = "".join(
                    f"{mean:10.5f} ({min(each):.5f} to {max(each):.5f})"
                    for mean, each in zip(means, found, strict=True)
                )
                print(f"{case.name:20}{method:8}{ratio:4}x  {shown}  {means[1] / means[0]:6.2f}", flush=True)


def _cases(data: Path) -> Iterator[Case]:
    options = Options(data, quick=False, seed=0, output=Path())
    yield from news.cases(options)
    yield from language_model.cases(options)


def _figures(case: Case, method: str, ratio: float, products: float) -> list[float]:
    """Return the KL divergence for each seed; ``products`` is the weight of inner products, 0 for nearest codes."""
    with mock.patch.object(error_feedback, "_PRODUCTS", products):
        return [case.figures(CONTENDERS[method](case, ratio, seed)[0])["KL"] for seed in range(_SEEDS)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
