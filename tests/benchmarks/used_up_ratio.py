"""Ratios that methods deliver, and errors of rows, without counts.

``python tests/benchmarks/used_up_ratio.py --data FOLDER`` compresses word vectors, both tables of a language model and
the tables of two recommenders to 4, 8, 16 and 32 times fewer bytes. A cell has the ratio, and the squared error of all
rows over that of zeros. The last cell is rounding by column, to evenly spaced numbers from the smallest to the largest
of each column. They have 32 / ratio bits, in the last columns one less, so that float16 bounds fit into the bytes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2] / "samples"))

from datasets import unpacked

import edge_embed
from edge_embed.errors import SizeError

_RATIOS, _METHODS = (4, 8, 16, 32), ("dpq", "rows", "tiered")
_BOUNDS = 2 * 2  # bytes of a column


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
def main(data: Path) -> None:
    """Print a row for each table and ratio."""
    torch.set_num_threads(1)
    print(f"{'':30}" + "".join(f"{method:20}" for method in (*_METHODS, "rounding by column")))
    for name, table in _tables(data):
        for ratio in _RATIOS:
            cells = "".join(f"{_cell(table, method, ratio):20}" for method in _METHODS)
            print(f"{name:24}{ratio:3}x  {cells}{_rounded(table, ratio):.5f}", flush=True)


def _tables(data: Path) -> Iterator[tuple[str, Tensor]]:
    import h5py  # type: ignore[import-untyped]

    with unpacked(data, "ptb-rnnlm") as folder:
        model = np.load(folder / "ptb_rnnlm_100.npz")
        yield "word vectors", torch.from_numpy(np.load(folder / "ptb_cbow_100.npz")["word_vecs"]).float()
        yield "language model, input", torch.from_numpy(model["embed"]).float()
        yield "language model, output", torch.from_numpy(model["affine_W"].T.copy()).float()
    with unpacked(data, "ncf-ml1m-weights") as folder:
        for kind in ("MLP", "GMF"):
            (path,) = folder.glob(f"*_{kind}_*.h5")
            with h5py.File(path) as file:
                for of in ("user", "item"):
                    yield f"{kind}, {of}s", torch.from_numpy(file[f"{of}_embedding/{of}_embedding_W"][()])


def _cell(table: Tensor, method: str, ratio: int) -> str:
    try:
        _, report = edge_embed.compress(nn.Sequential(nn.Embedding.from_pretrained(table)), method, ratio=ratio)
    except SizeError:
        return "does not fit"
    (found,) = (each.fidelity for each in report.tables if each.fidelity)
    return f"{found.ratio:.2f}x {found.relative_error**2:.5f}"


def _rounded(table: Tensor, ratio: int) -> float:
    """Return the error of rounding by column within the bytes."""
    n, dim = table.shape
    rows, bits = table.double(), 32 // ratio
    narrower = min(dim, -(-_BOUNDS * dim * 8 // n))  # columns of one bit less
    levels = torch.tensor([2.0 ** (bits - (column >= dim - narrower)) - 1 for column in range(dim)]).clamp(min=1)
    low, high = rows.amin(0), rows.amax(0)
    step = (high - low) / levels
    near = ((rows - low) / step).round() * step + low
    return float((near - rows).square().sum() / rows.square().sum())


if __name__ == "__main__":
    main()
