"""``edge-embed bench``."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from edge_embed.cli.help import HelpCommand
from edge_embed.cli.model import FILE, MODEL_SECTIONS, Load, model_options
from edge_embed.cli.output import Command, Output, output_options
from edge_embed.errors import BadInputError
from edge_embed.methods import Parts

_OF_FOLDERS = ("prompt_tokens", "new_tokens")
_RANDOM = list(Parts[object]("bench"))
_COMPARED = [name for name in Parts[object]("compress_bench") if name not in _RANDOM]


def _list_option(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(f"--{name}", metavar="LIST", help=text)


@click.command(
    cls=HelpCommand,
    short_help="Time tables, or language models in folders, beside others.",
    sections={
        "Measurement": ["preset", "method", "use", "peers", "modules"],
        "Sizes of random tables": ["rows", "dim", "codes", "groups", "anchors", "nonzeros", "rank"],
        "Calls": ["memory_megabytes", "k", "batch", "ids", "cache", "threads", "rounds", "seed"],
        "Folders of language models": [*_OF_FOLDERS],
        "Plots": ["plot", "force"],
        **MODEL_SECTIONS,
    },
    examples=(
        "bench model.onnx",
        "bench --method dpq,tt --use rows --rows 100000 --dim 256 --batch 1,4096",
        "bench --use compress --method dpq --rows 27000 --dim 128",
        "bench --preset output-layer --plot plots",
        "bench --use sparsemax,entmax15,attention",
        "bench chat-fp32 chat-int4 chat-small",
    ),
)
@click.argument("files", type=FILE, nargs=-1, metavar="[FILE | FOLDER FOLDER...]")
@click.option(
    "--preset", type=click.Choice(["lookup", "output-layer"]), help="Predefined grid, which the other options change."
)
@_list_option("method", f"{', '.join(_RANDOM)}; for compress also {', '.join(_COMPARED)}.")
@_list_option(
    "use",
    "rows, bag, logits, topk, kernel (no session), tflite-runtime, tflite-runtime-bag, litert, litert-bag. Without "
    "tables: sparsemax, entmax15, entmax, topk_sparsemax, attention. Alone: compress, the compression of dense tables, "
    "of FILE (a model) or random ones.",
)
@_list_option("rows", "Rows of random tables. [100000; 32768 for logits and topk; 27000 for compress]")
@_list_option("dim", "Columns. [256; 128 for compress]")
@_list_option("codes", "DPQ, last tier: codes per group. [16; 16,256 for compress]")
@_list_option("groups", "DPQ, last tier: groups. [a quarter of the columns; for compress a divisor of them]")
@_list_option("anchors", "ANT: anchors. [100]")
@_list_option("nonzeros", "ANT: weights per row. [8]")
@_list_option("rank", "TT, low_rank: rank. [16]")
@_list_option("memory-megabytes", "TT, DPQ: session memory, as for export. [as for export]")
@_list_option("k", "topk: number of largest logits; a file has its own. [10]")
@_list_option("batch", "Ids or hidden states per call. [rows 1,4096; bag 4096; logits 1,8,64; topk 1; kernel 1,256]")
@_list_option("ids", "Distribution of ids: uniform, zipf.")
@_list_option("cache", "State of the processor caches: warm, cold. [warm]")
@_list_option("peers", "Contenders: onnxruntime, torch, scipy, faiss, copy, tflite.")
@_list_option("threads", "Threads of every contender. [1]")
@click.option("--rounds", type=click.IntRange(min=2), help="Measured rounds. [20; 5 for compress; 10 for folders]")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of tables, ids and order. [0]")
@click.option("--prompt-tokens", type=click.IntRange(min=1), help="Tokens of a prompt. [32]")
@click.option("--new-tokens", type=click.IntRange(min=1), help="Tokens generated behind the first one. [16]")
@click.option("--plot", type=FILE, metavar="FOLDER", help="Write ratios.svg and roofline.svg to this folder.")
@click.option("--force", is_flag=True, help="Overwrite existing plots.")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="compress: table of FILE. [as for compress]")
@model_options
@output_options
def bench(
    out: Output,
    files: tuple[Path, ...],
    preset: str | None,
    plot: Path | None,
    force: bool,
    load: Load,
    modules: tuple[str, ...],
    **given: Any,
) -> None:
    """Measure the tables of FILE, or random tables of a grid, beside dense tables and other libraries.

    A LIST is separated by commas. Every combination is measured. Folders of ONNX Runtime GenAI generate text; the first
    is the baseline.
    """
    from edge_embed.bench.activation_grid import USES as ACTIVATIONS
    from edge_embed.bench.compress_grid import USE
    from edge_embed.importers.genai_folder import is_genai

    if len(files) > 1 or any(map(is_genai, files)):
        others = {"preset": preset, "plot": plot, "force": force or None, "module": modules or None}
        _folders(out, files, others | {name: name for name in load.given}, **given)
        return
    file = files[0] if files else None
    if unused := [name for name in _OF_FOLDERS if given.pop(name) is not None]:
        raise BadInputError(f"{unused[0]}: got a value without folders of ONNX Runtime GenAI: leave it out")

    uses = [word.strip() for word in (given["use"] or "").split(",")]
    if USE in uses and len(uses) > 1:
        raise BadInputError(f"use: got {given['use']!r:.80}, expected {USE} alone: run once for each")
    if force and USE in uses:
        raise BadInputError(f"force: got it with --use {USE}, which draws no plots: leave it out")
    of_file = [*load.given, *(["--module"] if modules else [])]
    if of_file and (file is None or USE not in uses):
        raise BadInputError(f"{', '.join(of_file)}: requires FILE and --use {USE}: give both, or leave it out")
    if not set(ACTIVATIONS).isdisjoint(uses):
        others = {"FILE": file, "preset": preset, "plot": plot, "force": force or None}
        _activations(out, others, **given)
        return
    if USE in uses:
        _compress(out, file, load, modules, **given | {"use": None, "preset": preset, "plot": plot})
        return
    from edge_embed.bench.grid import Grid
    from edge_embed.bench.run import bench as measure

    grid = Grid.parse(preset, file, **given)
    with out.progress() as progress:
        report = measure(grid, file, plot, force, progress)
    out.finish(report)


def _folders(out: Output, folders: tuple[Path, ...], others: dict[str, Any], **given: Any) -> None:
    """Measure generation with folders."""
    from edge_embed.bench.folders import FolderGrid, bench_folders
    from edge_embed.bench.grid import parsed

    wanted = {name: parsed(name, value) for name, value in given.items() if value is not None}
    known = {field.name for field in fields(FolderGrid)}
    if unused := [name for name, value in (others | wanted).items() if value is not None and name not in known]:
        raise BadInputError(f"{unused[0]}: got a value and folders of ONNX Runtime GenAI: leave it out")
    threads = wanted.pop("threads", (1,))
    if len(threads) > 1:
        raise BadInputError(f"threads: got {given['threads']!r:.80}, expected one number for folders")
    grid = FolderGrid(**wanted, threads=threads[0])
    with out.progress() as progress:
        report = bench_folders(folders, grid, progress)
    out.finish(report)


def _compress(out: Output, file: Path | None, load: Load, modules: tuple[str, ...], **given: Any) -> None:
    """Measure the compression of dense tables."""
    from edge_embed.bench.compress import bench_compress
    from edge_embed.bench.compress_grid import CompressGrid
    from edge_embed.bench.compress_tables import subjects_of

    grid = CompressGrid.parse(file, **given)
    subjects = None if file is None else subjects_of(load(file, modules), modules)
    with out.progress() as progress:
        report = bench_compress(grid, file, subjects, progress)
    out.finish(report)


def _activations(out: Output, others: dict[str, Any], **given: Any) -> None:
    """Measure sparse activations."""
    from edge_embed.bench.activation_grid import ActivationGrid
    from edge_embed.bench.activations import bench_activations

    grid = ActivationGrid.parse(**given, **others)
    with out.progress() as progress:
        report = bench_activations(grid, progress)
    out.finish(report)
