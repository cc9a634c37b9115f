"""Both trends by which nbANT searches the number of anchors, beside a sweep over that number.

Two tables are fitted to given rows: sums of two of six random vectors, and handwritten digits. The objective of
eq. (34) after the last epoch is divided by the lowest one of the sweep, which trains each number of anchors alone.

Usage: python samples/anchor_search.py --seeds 5
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import torch
from claims import interval, shown
from options import make_folder
from results import write_results
from torch import Tensor

import edge_embed
from edge_embed.layers.anchor_search import SearchStep, Trend
from edge_embed.report.views.markdown.blocks import join, table

_STEPS, _EPOCHS, _QUICK_EPOCHS = 50, 60, 4
_STARTS = 1, 10
_BUILD = Path(__file__).parents[1] / "build" / "anchor_search"


def made_rows() -> Tensor:
    """Return a hundred rows, each the sum of two of six vectors."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.stack([torch.randperm(6, generator=generator)[:2] for _ in range(100)])
    transform = torch.zeros(100, 6).scatter_(1, chosen, 0.5 + torch.rand(100, 2, generator=generator))
    return transform @ torch.randn(6, 8, generator=generator)


def digits() -> Tensor:
    """Return two hundred handwritten digits of 8 x 8 pixels.

    Raises:
        click.ClickException: scikit-learn, which has them, is missing.
    """
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install scikit-learn") from error
    return torch.tensor(load_digits().data[:200] / 16).float()


@dataclass(frozen=True)
class Case:
    """Rows to fit.

    Attributes:
        rows: function that returns them, float32 [n, d].
        penalties: lambda_1 and lambda_2.
        sizes: numbers of anchors of the sweep.
    """

    rows: Callable[[], Tensor]
    penalties: tuple[float, float]
    sizes: Sequence[int]


CASES: Mapping[str, Case] = {
    "made rows": Case(made_rows, (0.3, 0.002), range(2, 9)),
    "digits": Case(digits, (0.1, 5e-4), range(4, 15, 2)),
}


def searched(
    case: Case, num_anchors: int, seed: int, trend: Trend | None, epochs: int = _EPOCHS, above_zero: bool = True
) -> Sequence[SearchStep]:
    """Train a table, and return the history of the search; without a trend, the number stays, and it has one step.

    Args:
        case: the rows.
        num_anchors: number of anchors at the start.
        seed: seed of the initial table.
        trend: trend of the search.
        epochs: number of epochs.
        above_zero: whether anchors begin above zero, as in the authors' code.
    """
    torch.manual_seed(seed)
    wanted = case.rows()
    layer, ids = edge_embed.ANTEmbedding(len(wanted), wanted.shape[1], num_anchors), torch.arange(len(wanted))
    if above_zero:
        layer.start_from(vectors=layer.anchors.detach().abs())
    optimizer = edge_embed.ProximalOptimizer(edge_embed.Yogi(layer.parameters()), layer, case.penalties[1])
    search = edge_embed.AnchorSearch(optimizer, case.penalties[0], trend=trend or "sizes")
    for epoch in range(epochs):
        for _ in range(_STEPS):
            optimizer.zero_grad()
            (layer(ids) - wanted).square().sum(1).mean().backward()
            optimizer.step()
        if trend or epoch == epochs - 1:
            search.step((layer(ids) - wanted).detach().square().sum(1).mean())
    return search.history


@click.command()
@click.option("--seeds", type=click.IntRange(min=2), default=5, show_default=True, help="Number of seeds.")
@click.option("--quick", is_flag=True, help="Fewer epochs.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=_BUILD, help="Folder for results.")
def main(seeds: int, quick: bool, output: Path) -> None:
    """Search the number of anchors with both trends, and write figures.json and results.md."""
    make_folder(output)
    torch.set_num_threads(1)
    rows, epochs = list[dict[str, Any]](), _QUICK_EPOCHS if quick else _EPOCHS
    command = f"python samples/anchor_search.py --seeds {seeds}" + " --quick" * quick
    for name, case in CASES.items():
        sweep = [
            {size: searched(case, size, seed, None, epochs)[-1].objective for size in case.sizes}
            for seed in range(seeds)
        ]
        best = [min(each, key=lambda size: each[size]) for each in sweep]
        rows.append(_row(name, "sweep", None, [1.0] * seeds, best))
        for trend in get_args(Trend):
            for start in _STARTS:
                ends = [searched(case, start, seed, trend, epochs)[-1] for seed in range(seeds)]
                ratios = [end.objective / min(each.values()) for end, each in zip(ends, sweep, strict=True)]
                rows.append(_row(name, trend, start, ratios, [end.num_anchors[0] for end in ends]))
                click.echo(f"{name}, {trend} from {start}: {rows[-1]}", err=True)
                write_results(output, command, rows, markdown)


def _row(case: str, trend: str, start: int | None, ratios: Sequence[float], anchors: Sequence[int]) -> dict[str, Any]:
    objective = interval(list(ratios)) | {"worst": max(ratios)}
    return {"rows": case, "trend": trend, "start": start, "objective": objective, "anchors": list(anchors)}


def markdown(results: Mapping[str, Any]) -> str:
    """Return the report."""
    note = """\
*objective*: eq. (34) after the last epoch, over the lowest one of the sweep with the same seed: mean with a 95 %
interval (Student's t), and the worst one. *anchors*: their number after the last epoch, for each seed."""
    header = ["rows", "trend", "begins with", "objective", "worst", "anchors"]
    lines = [
        [
            row["rows"],
            row["trend"],
            "" if row["start"] is None else str(row["start"]),
            "1" if row["start"] is None else shown(row["objective"], ""),
            f"{row['objective']['worst']:.3g}",
            ", ".join(map(str, row["anchors"])),
        ]
        for row in results["rows"]
    ]
    return join(["# Number of anchors by both trends", f"`{results['command']}`", note, table(header, lines, texts=2)])


if __name__ == "__main__":
    main()
