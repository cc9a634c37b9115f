"""``edge-embed inspect``."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from edge_embed.cli.model import FILE, reading_of, reading_options
from edge_embed.cli.output import Output, output_options


@click.command()
@click.argument("file", type=FILE)
@click.option("--verify", is_flag=True, help="Check the hash of every table, and of nothing else.")
@reading_options
@output_options
def inspect(out: Output, file: Path, verify: bool, reading: dict[str, Any]) -> None:
    """Show what a saved model, packed, ONNX, ORT, TFLite or word vector file contains, table by table."""
    from edge_embed.inspection.inspect import inspect_file
    from edge_embed.inspection.render import render_file

    report = inspect_file(file, verify, reading_of(reading))
    out.finish_with(report, partial(render_file, report), report.exit_code)
