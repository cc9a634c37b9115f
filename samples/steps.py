"""Time of a training step relative to that of a dense table, for any width of table and LSTM.

Usage: python samples/steps.py wikitext2 --data FOLDER --width 512
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import torch
from costs import step_costs
from options import Options, data_option
from scipy import stats

from edge_embed.report.views.markdown.blocks import table


@click.command()
@click.argument("sample", type=click.Choice(("sst2", "wikitext2")))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option(
    "--width",
    type=click.IntRange(min=64),
    default=128,
    show_default=True,
    help="Width of rows and states, a multiple of 64.",
)
def main(sample: str, data: Path, width: int) -> None:
    """Time training steps of a SAMPLE on one core, of all methods in turns, and print the medians of their ratios."""
    if width % 64:
        raise click.BadParameter(f"got {width}, expected a multiple of 64, the number of groups", param_hint="--width")
    torch.set_num_threads(1)  # as in claims.py
    torch.manual_seed(0)
    module = import_module(f"{sample}.claims")
    task = module.make_task(Options(data, quick=False, seed=0, output=Path()))()
    costs = step_costs(task, {method: recipes[0] for method, recipes in module.candidates(width).items()}, quick=False)
    print(table(["method", "step", "95 % interval"], [[method, *_shown(ratios)] for method, ratios in costs.items()]))


def _shown(ratios: Sequence[float]) -> tuple[str, str]:
    """Return the median, and its interval by order statistics."""
    interval = stats.quantile_test(ratios, p=0.5).confidence_interval(0.95)
    return f"{np.median(ratios):.2f}x", f"{interval.low:.2f} to {interval.high:.2f}"


if __name__ == "__main__":
    main()
