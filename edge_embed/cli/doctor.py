"""``edge-embed doctor``."""

import click

from edge_embed.cli.output import Output, output_options


@click.command(short_help="Show what is installed, and what is missing.")
@output_options
def doctor(out: Output) -> None:
    """Show versions, the operator library that is used, and what is missing."""
    from edge_embed.inspection.doctor import diagnose

    report = diagnose()
    out.remarks(f"{problem.what}: {problem.remedy}" for problem in report.problems)
    out.finish(report, report.exit_code)
