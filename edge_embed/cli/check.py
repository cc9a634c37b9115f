"""``edge-embed check``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE, MODEL_SECTIONS, Load, importing_from, model_options
from edge_embed.cli.output import Output, check_places, output_options
from edge_embed.steps import limit_steps


@click.command(
    cls=HelpCommand,
    short_help="Fail if a model grew, drifted or slowed down.",
    sections={
        "Limits": ["budget", "baseline", "accept", "base", "base_library"],
        "Reports": ["output", "junit", "markdown", "html", "force", "verbose"],
        **MODEL_SECTIONS,
    },
    examples=(
        "check --budget edge-embed.toml",
        "check model.pt model.onnx --baseline baseline.json --output report.json",
        "check model.pt model.onnx --baseline baseline.json --accept",
    ),
)
@click.argument("model", type=FILE, required=False)
@click.argument("exported", type=FILE, required=False)
@click.option("--budget", type=FILE, help="Limits, and default paths of the files: edge-embed.toml.")
@click.option("--baseline", type=FILE, help="Report of an earlier check; no size may have grown since.")
@click.option("--base", type=FILE, help="Earlier EXPORTED, timed side by side; latency must not be worse.")
@click.option("--base-library", type=FILE, help="Operator library of --base. [the library of EXPORTED]")
@click.option("--output", "-o", type=FILE, help="Write the report as JSON; later checks use it as baseline.")
@click.option("--junit", type=FILE, help="Write the report as JUnit XML.")
@click.option("--markdown", type=FILE, help="Write the report as Markdown, for a comment on a pull request.")
@click.option("--html", type=FILE, help="Write the report as one HTML page.")
@click.option("--accept", is_flag=True, help="Replace the baseline by this state, unless another check fails.")
@click.option("--force", is_flag=True, help="Overwrite existing reports.")
@click.option("--verbose", is_flag=True, help="List passed checks too.")
@model_options
@output_options
def check(
    out: Output,
    model: Path | None,
    exported: Path | None,
    budget: Path | None,
    verbose: bool,
    load: Load,
    **files: Any,
) -> None:
    """Fail if EXPORTED grew, drifted or slowed down: compare it with MODEL, a budget and an earlier state.

    The exit code is 3 for parity, else 4 for size, else 5 for latency, else 1 if a limit could not be checked. Reports
    are written in every case.
    """
    from edge_embed import workflow
    from edge_embed.gate.budget import Budget, read_budget

    limits = Budget() if budget is None else read_budget(budget)
    source = model or limits.model
    check_places([files[name] for name in ("output", "junit", "markdown", "html")], force=files["force"])
    if files["accept"]:
        check_places([files["baseline"] or limits.baseline], force=True)
    with (
        out.progress() as progress,
        importing_from(Path.cwd()) if limits.metric else nullcontext(),
        limit_steps(limits.targets.time_limit),
    ):
        program = None if source is None else load.unless_runtime(source)
        report = workflow.check(
            program, exported, budget=limits, **files, progress=progress, load_options=load.arguments
        )
    kept = [report.acceptance] if report.exit_code and report.acceptance else []
    out.remarks([*report.reasons(), *kept, *report.warnings])
    out.finish(report, report.exit_code, lambda console: report.show(console, verbose))
