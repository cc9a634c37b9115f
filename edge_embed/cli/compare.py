"""``edge-embed compare``."""

from pathlib import Path

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE
from edge_embed.cli.output import Output, output_options


@click.command(
    cls=HelpCommand,
    short_help="Show models side by side: sizes, metric, latency.",
    examples=(
        "compare 16-codes.json 4-codes.json",
        "compare before.json after.json --html compare.html --markdown compare.md",
    ),
)
@click.argument("reports", type=FILE, nargs=-1, metavar="REPORT...")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write the comparison as Markdown.")
@click.option(
    "--html", type=FILE, metavar="FILE", help="Write the comparison as one HTML page, with size against accuracy."
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@output_options
def compare(out: Output, reports: tuple[Path, ...], markdown: Path | None, html: Path | None, force: bool) -> None:
    """Show models side by side: sizes, metric, latency, and which models are worth choosing.

    Each REPORT is the output of `check --output` or `validate --json` for one model.
    """
    from edge_embed.gate.compare import compare_reports
    from edge_embed.gate.report_places import COMPARE, reports_at

    with reports_at({"markdown": markdown, "html": html}, COMPARE, keep=reports, force=force) as write:
        report = compare_reports(reports)
        write(report)
    out.finish(report)
