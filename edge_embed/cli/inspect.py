"""``edge-embed inspect``."""

from pathlib import Path
from typing import Any

import click

from edge_embed.cli.model import FILE, reading_of, reading_options
from edge_embed.cli.output import Output, output_options


@click.command(short_help="List the tables of a model file.")
@click.argument("file", type=FILE)
@click.option("--verify", is_flag=True, help="Compare the hash of every table with the stored one.")
@reading_options
@output_options
def inspect(out: Output, file: Path, verify: bool, reading: dict[str, Any]) -> None:
    """List the tables of a saved model, packed file, ONNX, ORT or TFLite file, or file of word vectors."""
    from edge_embed.inspection.inspect import inspect_file

    report = inspect_file(file, verify, reading_of(reading))
    out.finish(report, report.exit_code)
