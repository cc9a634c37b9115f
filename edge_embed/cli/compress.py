"""``edge-embed compress``."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_embed.cli.group import LOST
from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE, MODEL_SECTIONS, Load, NamedPath, model_options
from edge_embed.cli.output import Command, Output, check_places, output_options
from edge_embed.cli.torchrun import shared_group
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.methods import Parts

if TYPE_CHECKING:
    from edge_embed.fitting.row_counts import RowCounts
    from edge_embed.report.results.compressed import CompressReport

_LOST = "nothing was written, and finished parts are lost: give --checkpoint FOLDER to keep them"
_SIZES = {
    "num_codes": "dpq, opq: codes K per group.",
    "num_groups": "dpq, opq: groups D, a divisor of the columns.",
    "num_anchors": "ant: number of anchors A.",
    "rank": "tt, tr, low_rank: rank R.",
    "bits": "rows: bits per weight, 2 to 8.",
}


def _size_options(command: Command) -> Command:
    """Add the sizes of single methods, which replace a goal."""
    for name, text in reversed(_SIZES.items()):
        command = click.option(f"--{name.replace('_', '-')}", type=click.IntRange(min=1), help=text)(command)
    return command


@click.command(
    cls=HelpCommand,
    short_help="Compress the dense tables of a trained model.",
    sections={
        "Goal, one of": ["ratio", "budget", "min_cosine"],
        "Tables and method": ["method", "modules", "seed"],
        "Language models": ["texts"],
        "Calibration": ["calibrate", "calibration_steps"],
        "Frequencies of rows": ["counted", "compared", "tokenizer", "objective"],
        "Sizes of a method, instead of a goal": [*_SIZES, "nonzeros", "value_type", "weight_type"],
        "Files": ["output", "card", "plot", "checkpoint", "memory_megabytes", "no_open", "no_library", "force"],
        **MODEL_SECTIONS,
    },
    examples=(
        "compress model.pt -o small.pt --ratio 8",
        "compress model.onnx -o small.onnx --min-cosine 0.95 --method dpq",
        "compress glove.txt -o vectors.pt --budget 10MB --plot tried.svg",
        "compress model.pt -o small.pt --module words --method rows --bits 4",
        "compress model.pt -o small.pt --ratio 16 --method tiered --counts words=ids:train.npy",
        "compress chat -o chat.pt --ratio 8 --texts texts.txt --card README.md",
        "compress chat -o chat.pt --ratio 16 --calibrate training.txt --texts texts.txt",
    ),
)
@click.argument("model", type=FILE)
@click.option("--output", "-o", type=FILE, required=True, help="File to write, of the same kind as MODEL.")
@click.option("--method", default="auto", show_default=True, help=f"{', '.join(Parts('fitting'))}; auto tries all.")
@click.option("--ratio", type=float, help="Smallest compression ratio of each table.")
@click.option("--budget", metavar="SIZE", help="Largest size of all packed tables together, such as 3MB.")
@click.option("--min-cosine", type=float, help="Smallest mean cosine between packed and dense rows.")
@click.option(
    "--module", "modules", multiple=True, metavar="NAME", help="Layer to compress. [tables with 5 % of the parameters]"
)
@click.option(
    "--counts",
    "counted",
    multiple=True,
    metavar="NAME=SOURCE",
    help="Occurrences of each row of a table: FILE.npy, ids:FILE, texts:FILE, or order (assumed).",
)
@click.option(
    "--other-counts",
    "compared",
    multiple=True,
    metavar="NAME=SOURCE",
    help="tiered: occurrences in other data, to measure the table for them too.",
)
@click.option("--tokenizer", type=FILE, metavar="FILE", help="tokenizer.json for texts.")
@click.option(
    "--texts",
    type=FILE,
    metavar="FILE",
    help="Compare next tokens of this text with MODEL, for transformers folders and saved models.",
)
@click.option(
    "--calibrate",
    type=FILE,
    metavar="FILE",
    help="Keep the outputs of MODEL on these examples: a text for decoders, or inputs in FILE.npz.",
)
@click.option(
    "--calibration-steps",
    type=click.IntRange(min=1),
    help="--calibrate: number of steps. [1000]",
)
@click.option(
    "--objective",
    type=click.Choice(["rows", "bags", "logits"]),
    help="tiered: keep rows close, their sums in bags, or largest logits. [bags for embedding bags, else rows; logits "
    "if --calibrate weighs rows]",
)
@_size_options
@click.option("--nonzeros", type=float, help="ant: mean number of weights per row.")
@click.option("--value-type", help="Type of stored values: float32 or float16; dpq, opq: int8 too.")
@click.option("--weight-type", help="ant: type of weights, float32, float16 or int8.")
@click.option("--card", type=FILE, metavar="FILE.md", help="Write a model card for the Hugging Face Hub.")
@click.option("--plot", type=FILE, metavar="FILE.svg", help="Plot the settings tried on each table.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option(
    "--checkpoint",
    type=NamedPath(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Store finished parts here until the file is written; the same command resumes from them.",
)
@click.option(
    "--memory-megabytes",
    type=click.IntRange(min=0),
    help="ONNX, GenAI folders: session memory per use of a table, as for export. [as for export]",
)
@click.option(
    "--no-open",
    is_flag=True,
    help="ONNX and TFLite: skip opening the new file in its runtime.",
)
@click.option("--no-library", is_flag=True, help="GenAI folders: omit the operator library; portable bodies run.")
@click.option("--force", is_flag=True, help="Overwrite an existing file, or replace a GenAI folder as a whole.")
@model_options
@output_options
def compress(
    out: Output,
    model: Path,
    load: Load,
    counted: tuple[str, ...],
    compared: tuple[str, ...],
    tokenizer: Path | None,
    texts: Path | None,
    calibrate: Path | None,
    budget: str | None,
    plot: Path | None,
    no_open: bool,
    no_library: bool,
    force: bool,
    **given: Any,
) -> None:
    """Replace the dense tables of MODEL by compressed ones, without training.

    MODEL is a saved model, a file of word vectors, a transformers folder, an ONNX or TFLite file of any tool, or a
    folder of ONNX Runtime GenAI. Processes started by torchrun share the work.
    """
    kept = f"finished parts are kept in {given['checkpoint']}: the same command resumes from them"
    click.get_current_context().meta[LOST] = _LOST if given["checkpoint"] is None else f"nothing was written; {kept}"
    from edge_embed import workflow
    from edge_embed.files import check_folder, check_once
    from edge_embed.fitting.processes import Processes
    from edge_embed.importers.genai_folder import is_genai

    wanted = {name: value for name, value in given.items() if value is not None}
    group = shared_group()
    places = {"plot": plot} | {name: given[name] for name in ("card", "output", "checkpoint")}
    check_once({name: place for name, place in places.items() if place is not None})
    if group is None:  # of several processes the first writes, and reports errors to the others
        check_places([given["card"], *([] if is_genai(model) else [given["output"]])], force=force)
        if given["checkpoint"] is not None:
            check_folder(given["checkpoint"], given["checkpoint"])
    drawn = plot if Processes(group).is_first else None
    with (
        _telling_what_is_kept(given["checkpoint"], kept),
        out.progress() as progress,
        _drawing(drawn, force, model) as draw,
    ):
        progress(f"reading {model}", 0, 1)
        has_text = texts is not None or calibrate is not None
        if calibrate is None and "calibration_steps" in wanted:
            got = f"got {wanted['calibration_steps']} without examples, expected --calibrate FILE beside it, or neither"
            raise click.BadParameter(got, param_hint="--calibration-steps")
        if tokenizer is not None and not has_text and not any("=texts:" in item for item in (*counted, *compared)):
            expected = "expected --texts FILE, --calibrate FILE or --counts NAME=texts:FILE beside it: leave it out"
            raise click.BadParameter(f"got {tokenizer} without texts, {expected}", param_hint="--tokenizer")
        counts = _counts(counted, "--counts", tokenizer)
        others = _counts(compared, "--other-counts", tokenizer)
        most = f"{budget} B" if budget is not None and budget.isdecimal() else budget
        wanted |= {"budget": most, "counts": counts, "other_counts": others}
        wanted |= {"open": not no_open, "force": force}
        wanted |= {"library": not no_library}
        wanted |= {"texts": texts, "calibrate": calibrate, "tokenizer": tokenizer if has_text else None}
        wanted |= {"progress": progress, "group": group}
        _, report = workflow.compress(load.unless_runtime(model, wanted["modules"]), **wanted)
        draw(report)
    out.remarks(report.source.lines())
    out.finish(report)


@contextmanager
def _telling_what_is_kept(checkpoint: Path | None, kept: str) -> Iterator[None]:
    """Add the state of finished parts to the error of a failed run."""
    try:
        yield
    except EdgeEmbedError as error:
        if checkpoint is None or not any(checkpoint.glob("*/*.safetensors")):
            raise
        raise type(error)(f"{error}; {kept}") from error


@contextmanager
def _drawing(plot: Path | None, force: bool, model: Path) -> Iterator[Callable[["CompressReport"], None]]:
    """Yield a function that draws the report, if a plot is requested; checks for it run now, before minutes of work."""
    from edge_embed.files import keep_inputs, new_file
    from edge_embed.report.views.compressed_plot import draw
    from edge_embed.report.views.svg import check_plots

    if plot is None:
        yield lambda report: None
        return
    check_plots(", or leave --plot out")
    keep_inputs([plot], [model])
    if plot.suffix.lower() != ".svg":
        raise click.BadParameter(f"got {plot}, expected a name that ends in .svg", param_hint="--plot")
    with new_file(plot, force=force) as temporary:
        yield lambda report: draw(report, temporary)


def _counts(spelled: Iterable[str], option: str, tokenizer: Path | None) -> dict[str, "RowCounts"]:
    """Convert ``("words=counts.npy",)`` to counts by table."""
    from edge_embed.importers.row_counts import read_row_counts

    counts = {}
    for item in spelled:
        name, _, source = item.rpartition("=")
        if not name:
            raise click.BadParameter(f"got {item!r}, expected NAME=FILE, such as words=counts.npy", param_hint=option)
        if name in counts:
            raise click.BadParameter(f"got {name} twice, expected one file for each table", param_hint=option)
        try:
            counts[name] = read_row_counts(source, tokenizer)
        except BadInputError as error:
            raise click.BadParameter(str(error), param_hint=option) from error
    return counts
