"""``edge-embed validate``."""

from pathlib import Path
from typing import Any

import click

from edge_embed.cli.group import LOST
from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE, MODEL_SECTIONS, Load, model_options
from edge_embed.cli.output import Output, check_places, output_options
from edge_embed.steps import limit_steps


@click.command(
    cls=HelpCommand,
    short_help="Prove that an exported file computes what the model does.",
    sections={
        "What is compared": ["atol", "rtol", "tokenizer", "changed_after_export", "targets"],
        "Inputs of the whole model": ["seed", "more_cases", "inputs", "save_inputs", "save_worst"],
        "Times": ["iterations", "warmup", "time_limit"],
        "Reports": ["markdown", "html", "force", "verbose"],
        **MODEL_SECTIONS,
    },
    examples=(
        "validate model.pt model.onnx",
        "validate model.pt model.onnx --target portable --html report.html",
        "validate original.onnx compressed.onnx --load-inputs inputs.npz",
    ),
)
@click.argument("model", type=FILE)
@click.argument("exported", type=FILE)
@click.option("--atol", multiple=True, metavar="[OUTPUT:]X", help="Absolute tolerance of the outputs.")
@click.option("--rtol", multiple=True, metavar="[OUTPUT:]X", help="Relative tolerance of the outputs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random ids and inputs.")
@click.option("--iterations", type=click.IntRange(min=2), default=50, show_default=True, help="Timed runs per side.")
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Untimed runs before.")
@click.option(
    "--cases", "more_cases", type=click.IntRange(min=0), default=0, show_default=True, help="More random inputs."
)
@click.option(
    "--load-inputs", "inputs", type=FILE, metavar="FILE", help="Inputs of the whole model, in place of random ones."
)
@click.option("--save-inputs", type=FILE, metavar="FILE", help="Write the inputs there (.npz).")
@click.option("--save-worst", type=FILE, metavar="FILE", help="Write those on which an output was farthest off.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write the report as Markdown.")
@click.option("--html", type=FILE, metavar="FILE", help="Write the report as one HTML page.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--tokenizer", type=FILE, metavar="FILE", help="The tokenizer.json of the export, to compare ids with.")
@click.option("--changed-after-export", is_flag=True, help="A tool changed EXPORTED on purpose: tell how, pass.")
@click.option("--target", "targets", multiple=True, help="Run the model there too; `edge-embed doctor` lists them.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Of each step: a session that is made, a run on given inputs.",
)
@click.option("--verbose", is_flag=True, help="List what passed too, not only how much.")
@model_options
@output_options
def validate(
    out: Output,
    model: Path,
    exported: Path,
    markdown: Path | None,
    html: Path | None,
    verbose: bool,
    load: Load,
    **given: Any,
) -> None:
    """Compare EXPORTED with the MODEL it came from: every row, outputs of every path, sizes, latency.

    Of a file that `compress` wrote in place, MODEL is the .onnx or .tflite file that it was made from.
    """
    from edge_embed import workflow
    from edge_embed.gate.report_places import VALIDATION, reports_at
    from edge_embed.validation.options import ValidationOptions

    options = ValidationOptions.parse(**given)
    if options.save_inputs is not None:
        lost = f"no report was written; the inputs, if they were drawn, are in {options.save_inputs}"
        click.get_current_context().meta[LOST] = lost
    check_places([options.save_inputs, options.save_worst], force=options.force)
    places, keep = {"markdown": markdown, "html": html}, (model, exported, options.inputs, options.tokenizer)
    with (
        out.progress() as progress,
        reports_at(places, VALIDATION, keep=keep, force=options.force) as write,
        limit_steps(options.time_limit),
    ):
        report = workflow.validate(load.unless_runtime(model), exported, options=options, progress=progress)
        write(report)
    out.remarks([*([report.cause] if report.cause else []), *report.failures()])
    out.finish(report, report.exit_code, lambda console: console.print(report.render(verbose=verbose)))
