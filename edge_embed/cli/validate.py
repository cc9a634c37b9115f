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
    short_help="Compare an exported file with its model.",
    sections={
        "Comparison": ["atol", "rtol", "tokenizer", "texts", "original", "changed_after_export", "targets"],
        "Inputs of the model": ["seed", "more_cases", "inputs", "save_inputs", "save_worst"],
        "Timing": ["iterations", "warmup", "time_limit"],
        "Reports": ["markdown", "html", "force", "verbose"],
        **MODEL_SECTIONS,
    },
    examples=(
        "validate model.pt model.onnx",
        "validate model.pt model.onnx --target portable --html report.html",
        "validate original.onnx compressed.onnx --load-inputs inputs.npz",
        "validate --bundle app_model",
    ),
)
@click.argument("model", type=FILE, required=False)
@click.argument("exported", type=FILE, required=False)
@click.option("--bundle", type=FILE, metavar="FOLDER", help="Check a bundle alone: hashes and golden outputs.")
@click.option("--atol", multiple=True, metavar="[OUTPUT:]X", help="Absolute tolerance of the outputs.")
@click.option("--rtol", multiple=True, metavar="[OUTPUT:]X", help="Relative tolerance of the outputs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random ids and inputs.")
@click.option(
    "--iterations", type=click.IntRange(min=2), default=50, show_default=True, help="Timed runs per contender."
)
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Untimed runs before them.")
@click.option(
    "--cases",
    "more_cases",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of additional random inputs.",
)
@click.option("--load-inputs", "inputs", type=FILE, metavar="FILE", help="Read the inputs from this file (.npz).")
@click.option("--save-inputs", type=FILE, metavar="FILE", help="Write the inputs to this file (.npz).")
@click.option("--save-worst", type=FILE, metavar="FILE", help="Write the inputs with the largest output error (.npz).")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write the report as Markdown.")
@click.option("--html", type=FILE, metavar="FILE", help="Write the report as one HTML page.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option(
    "--tokenizer",
    type=FILE,
    metavar="FILE",
    help="tokenizer.json of the export, whose ids are compared, or for --texts.",
)
@click.option("--texts", type=FILE, metavar="FILE", help="Compare next tokens of this text, of language models.")
@click.option("--original", type=FILE, metavar="MODEL", help="--texts: MODEL before compression, for exported files.")
@click.option("--changed-after-export", is_flag=True, help="Report changes that a tool made to EXPORTED, and pass.")
@click.option("--target", "targets", multiple=True, help="Run the model on this target too; see `edge-embed doctor`.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each step, such as one run of the model.",
)
@click.option("--verbose", is_flag=True, help="List passed checks too.")
@model_options
@output_options
def validate(
    out: Output,
    model: Path | None,
    exported: Path | None,
    bundle: Path | None,
    markdown: Path | None,
    html: Path | None,
    original: Path | None,
    verbose: bool,
    load: Load,
    **given: Any,
) -> None:
    """Compare EXPORTED with its MODEL: every row, outputs of every path, sizes, latency.

    If `compress` wrote EXPORTED from an .onnx or .tflite file, MODEL is that file.
    A bundle holds the outputs of its MODEL, so it is checked without one.
    """
    if bundle is not None:
        _validate_bundle(out, bundle, given["time_limit"])
        return
    from edge_embed import workflow

    if model is None or exported is None:
        missing = "MODEL" if model is None else "EXPORTED"
        raise click.UsageError(f"Missing argument '{missing}'.")
    from edge_embed.gate.report_places import VALIDATION, reports_at
    from edge_embed.validation.options import ValidationOptions

    options = ValidationOptions.parse(**given)
    if options.save_inputs is not None:
        lost = f"no report was written; inputs that were already generated are in {options.save_inputs}"
        click.get_current_context().meta[LOST] = lost
    check_places([options.save_inputs, options.save_worst], force=options.force)
    places, keep = (
        {"markdown": markdown, "html": html},
        (model, exported, options.inputs, options.tokenizer, options.texts, original),
    )
    with (
        out.progress() as progress,
        reports_at(places, VALIDATION, keep=keep, force=options.force) as write,
        limit_steps(options.time_limit),
    ):
        program = load.unless_runtime(model)
        report = workflow.validate(program, exported, options=options, progress=progress, original=original)
        write(report)
    out.remarks([*([report.cause] if report.cause else []), *report.failures()])
    out.finish(report, report.exit_code, lambda console: console.print(report.render(verbose=verbose)))


def _validate_bundle(out: Output, folder: Path, time_limit: float) -> None:
    """Check a bundle; other arguments have no meaning for it."""
    from edge_embed.bundle.check import validate_bundle  # needs no torch

    context = click.get_current_context()
    used = {"bundle", "time_limit", "as_json", "quiet"}
    source = context.get_parameter_source
    others = [
        parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
        for parameter in context.command.params
        if parameter.name not in used and source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
    ]
    if others:
        given = ", ".join(others)
        raise click.UsageError(f"got {given} beside --bundle, which checks a bundle alone: leave out {given}")
    with limit_steps(time_limit):
        report = validate_bundle(folder)
    out.finish(report, report.exit_code)
