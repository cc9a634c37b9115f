"""Runs a sample: trains the same model with a dense table and with compressed ones, and compares them.

Usage: python samples/compare.py ag_news --data FOLDER
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click
import torch
from comparison import Result
from options import Options, data_option, make_folder
from rich.console import Console
from rich.table import Table

_NAMES = ("ag_news", "amazon_video", "pretrained", "sentence_encoder", "wikitext2")
_BUILD = Path(__file__).parents[1] / "build" / "samples"
_WIDTH = 120  # of a table in a log, which has no terminal width


@click.command()
@click.argument("sample", type=click.Choice(_NAMES))
@data_option("Folder with the archives (*.tar.xz) of the data sets; nothing is written there.", required=True)
@click.option("--quick", is_flag=True, help="Run every step with less data and fewer epochs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the models, which are overwritten. Default: build/samples/SAMPLE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def main(sample: str, data: Path, quick: bool, seed: int, output: Path | None, as_json: bool) -> None:
    """Make the models of a SAMPLE, export and validate them, and print how they compare.

    Progress goes to stderr. The exit code is 1 if a validation fails.
    """
    options = Options(data, quick, seed, output or _BUILD / sample)
    make_folder(options.output)
    torch.manual_seed(seed)
    results: list[Result] = import_module(f"{sample}.sample").run(options)
    if as_json:
        print(json.dumps({"sample": sample, "results": [dataclasses.asdict(result) for result in results]}))
    else:
        Console(width=None if sys.stdout.isatty() else _WIDTH).print(_table(sample, results))
    sys.exit(any(result.validation == "failed" for result in results))


def _table(name: str, results: Sequence[Result]) -> Table:
    metrics = list(dict.fromkeys(metric for result in results for metric in result.scores))
    table = Table("method", title=name)
    for column in (*metrics, "ratio", "table bytes", "file bytes", "time / dense", "validation"):
        table.add_column(column, justify="right")
    for result in results:
        scores = [f"{result.scores[metric]:.4g}" if metric in result.scores else "" for metric in metrics]
        sizes = [f"{result.ratio:.1f}x", f"{result.table_bytes:,}", f"{result.file_bytes:,}"]
        times = "\n".join(f"{use} {ratio:.2f}" for use, ratio in result.times.items())
        table.add_row(result.method, *scores, *sizes, times, result.validation)
    return table


if __name__ == "__main__":
    main()
