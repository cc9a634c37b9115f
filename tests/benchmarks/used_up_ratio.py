"""Ratios that methods deliver, and errors of rows, without counts.

``python tests/benchmarks/used_up_ratio.py --data FOLDER`` compresses the tables of the models of
`samples/compare_tiers.py` to 4, 8, 16 and 32 times fewer bytes. A cell has the ratio, and the squared error of all rows
over that of zeros.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))

from options import Options
from tiers import language_model, recommenders

import edge_embed
from edge_embed.errors import SizeError

_RATIOS, _METHODS = (4, 8, 16, 32), ("dpq", "opq", "rows", "tiered")


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
def main(data: Path) -> None:
    """Print a row for each table and ratio."""
    torch.set_num_threads(1)
    print(f"{'':40}" + "".join(f"{method:20}" for method in _METHODS))
    for name, model, table in _tables(data):
        for ratio in _RATIOS:
            cells = "".join(f"{_cell(model, table, method, ratio):20}" for method in _METHODS)
            print(f"{name + ', ' + table:34}{ratio:3}x  {cells}", flush=True)


def _tables(data: Path) -> Iterator[tuple[str, nn.Module, str]]:
    options = Options(data, quick=False, seed=0, output=data)
    for cases in (language_model.cases, recommenders.cases):
        for case in cases(options):
            for table in case.counts:
                yield case.name, case.model, table


def _cell(model: nn.Module, table: str, method: str, ratio: float) -> str:
    try:
        _, report = edge_embed.compress(model, method, modules=[table], ratio=ratio)
    except SizeError:
        return "does not fit"
    found = next(each.fidelity for each in report.tables if each.fidelity)
    return f"{found.ratio:.2f}x {found.relative_error**2:.4f}"


if __name__ == "__main__":
    main()
