"""``edge-embed doctor``."""

import click

from edge_embed.cli.output import Output, output_options


@click.command(short_help="Show versions and missing packages.")
@output_options
def doctor(out: Output) -> None:
    """Show versions, the operator library, targets, and missing packages with their remedy."""
    from edge_embed.inspection.doctor import diagnose

    report = diagnose()
    out.remarks(f"{problem.what}: {problem.remedy}" for problem in report.problems)
    out.finish(report, report.exit_code)
