"""``edge-embed doctor``."""

from functools import partial

import click

from edge_embed.cli.output import Output, output_options


@click.command()
@output_options
def doctor(out: Output) -> None:
    """Show versions, the operator library that is used, and what is missing."""
    from edge_embed.inspection.doctor import diagnose
    from edge_embed.inspection.render import render_doctor

    report = diagnose()
    out.remarks(f"{problem.what}: {problem.remedy}" for problem in report.problems)
    out.finish_with(report, partial(render_doctor, report), 0 if report.ok else 1)
