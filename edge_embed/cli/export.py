"""``edge-embed export``."""

from pathlib import Path
from typing import Any

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE, MODEL_SECTIONS, Load, model_options
from edge_embed.cli.output import Output, check_places, output_options


@click.command(
    cls=HelpCommand,
    short_help="Write an ONNX or TFLite file with packed tables.",
    sections={
        "ONNX": ["external_data", "memory_megabytes", "tokenizer", "tokenizer_input"],
        "TFLite": ["tflite_table", "tflite_sizes"],
        **MODEL_SECTIONS,
    },
    examples=(
        "export model.pt --target onnx",
        "export model.pt --target onnx --tokenizer tokenizer.json -o text.onnx",
        "export model.pt --target tflite --tflite-size batch=1,sequence=64",
        "export model.pt --target onnx --bundle app_model",
    ),
)
@click.argument("model", type=FILE)
@click.option("--target", required=True, help="Target format: onnx or tflite.")
@click.option("--output", "-o", type=FILE, help="File to write. [MODEL with the suffix of the target]")
@click.option(
    "--bundle",
    type=FILE,
    metavar="FOLDER",
    help="Write a folder in place of a file: with golden outputs, hashes, vocabulary and model card.",
)
@click.option(
    "--external-data",
    type=click.Choice(["auto", "always", "never"]),
    help="Store weights in a second file; auto does above 128 MB. [auto]",
)
@click.option(
    "--memory-megabytes",
    type=click.IntRange(min=0),
    help="Session memory per use of a table. [TT: none; output layers of DPQ: the size of their codes, "
    "or none with external data]",
)
@click.option(
    "--tokenizer", type=FILE, metavar="FILE", help="tokenizer.json to include: the model then accepts strings."
)
@click.option("--tokenizer-input", metavar="NAME", help="Input that receives the ids, if several are integers.")
@click.option(
    "--tflite-table",
    type=click.Choice(["auto", "byte", "pairs"]),
    help="Lookup of DPQ tables; pairs is faster and larger; auto selects it up to 20 % more. [auto]",
)
@click.option(
    "--tflite-size",
    "tflite_sizes",
    multiple=True,
    metavar="DIM=SIZE[,...]",
    help="Fixed sizes of a dimension, one signature each. [lookups and bags: dynamic; other models: the example]",
)
@click.option(
    "--id-check",
    type=click.Choice(["error", "nan"]),
    help="Result for ids out of range: an error where the runtime can give one, or rows of NaN. [the runtime decides]",
)
@click.option("--allow-empty", is_flag=True, help="Export tables even if all rows are zero.")
@click.option("--no-open", is_flag=True, help="Skip opening the file in its runtime.")
@click.option("--force", is_flag=True, help="Overwrite existing files, or replace a bundle.")
@model_options
@output_options
def export(
    out: Output,
    model: Path,
    target: str,
    output: Path | None,
    bundle: Path | None,
    load: Load,
    tflite_sizes: tuple[str, ...],
    no_open: bool,
    **options: Any,
) -> None:
    """Write MODEL with packed tables to a file of the target format, or to a bundle."""
    from edge_embed import workflow
    from edge_embed.bundle.write import check_bundle_folder

    workflow.check_target(target)
    if bundle is not None and output is not None:
        raise click.UsageError(
            f"--output: got {output} beside --bundle {bundle}, which names the model itself: omit one"
        )
    if bundle is None and output is None and model.name in ("", ".."):
        raise click.UsageError(f"{model}: got no name for the output file: give --output FILE.{target}")
    place = bundle or output or model.with_suffix(f".{target}")
    if bundle is None:
        check_places([place], force=options["force"])
    else:
        check_bundle_folder(bundle, options["force"])
    with out.progress() as progress:
        sizes = _sizes(tflite_sizes) or None
        chosen = {"tflite_sizes": sizes, "open": not no_open, "bundle": bundle is not None, **options}
        report = workflow.export(load(model), target, place, **chosen, progress=progress)
    out.remarks(report.source.lines())
    out.finish(report)


def _sizes(spelled: tuple[str, ...]) -> dict[str, list[int]]:
    """Convert ``("sequence=64,128",)`` to sizes by dimension."""
    sizes: dict[str, list[int]] = {}
    for item in spelled:
        name, _, numbers = item.partition("=")
        try:
            sizes.setdefault(name, []).extend(map(int, numbers.split(",")))
        except ValueError as error:
            message = f"got {item!r}, expected DIM=SIZE or DIM=SIZE,SIZE, such as sequence=64,128"
            raise click.BadParameter(message, param_hint="--tflite-size") from error
    return sizes
