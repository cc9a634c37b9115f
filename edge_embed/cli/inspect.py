"""``edge-embed inspect``."""

from pathlib import Path
from typing import Any

import click

from edge_embed.cli.model import FILE, reading_of, reading_options
from edge_embed.cli.output import Output, output_options


@click.command(short_help="Show what a model file contains, table by table.")
@click.argument("file", type=FILE)
@click.option("--verify", is_flag=True, help="Check the hash of every table, and of nothing else.")
@reading_options
@output_options
def inspect(out: Output, file: Path, verify: bool, reading: dict[str, Any]) -> None:
    """Show what a saved model, packed, ONNX, ORT, TFLite or word vector file contains, table by table."""
    from edge_embed.inspection.inspect import inspect_file

    report = inspect_file(file, verify, reading_of(reading))
    out.finish(report, report.exit_code)
