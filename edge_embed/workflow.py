"""The product on one page: compress -> save -> lower -> export -> validate -> check."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from torch import Tensor, nn

from edge_embed.compression.job import Job
from edge_embed.compression.onnx.compress import compress_onnx
from edge_embed.compression.plan import Plan
from edge_embed.compression.programs import (
    CompressedFile,
    CompressedModule,
    CompressedProgram,
    compress_module,
    compress_program,
)
from edge_embed.compression.tflite.compress import compress_tflite
from edge_embed.errors import BadInputError, located, suggested
from edge_embed.exporters.exported import ExportedFile, keep_unopened
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.exporters.onnx.storage import ExternalData, weights_file
from edge_embed.exporters.tflite.export import export_tflite
from edge_embed.files import StrPath, check_name, check_output, checked_path, keep_inputs, new_file
from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.processes import Processes
from edge_embed.gate.accept_command import accept_command
from edge_embed.gate.budget import Budget, read_budget
from edge_embed.gate.check import run_check
from edge_embed.gate.missing_checks import warnings_of_replacing
from edge_embed.gate.quantities import read_bytes
from edge_embed.gate.report_places import CHECK, accept_report, reports_at
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.inspect import is_onnx_file, is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress, lower_program
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.capture import ExampleInputs
from edge_embed.program.file_kind import check_runtime_file
from edge_embed.program.load import capture_program, load_program, rewrite_program, write_program
from edge_embed.program.program import Program, ProgramInput
from edge_embed.program.state_dict import Factory
from edge_embed.report.interactive import BARS, interactive
from edge_embed.report.results.check import CheckReport
from edge_embed.report.results.exported import ExportReport
from edge_embed.report.results.validation import ValidationReport
from edge_embed.steps import limit_steps
from edge_embed.validation.opening import Opening
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.open import is_runtime_file, open_pair
from edge_embed.validation.tokenizer import fit_tokenizer
from edge_embed.validation.validate_file import validate_file

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup  # not in every build of torch

Model = nn.Module | StrPath

_LOG = logging.getLogger(__name__)

# The exporter of each target, which takes a lowered program, a path and options, and the options of `export` it has.
TARGETS: dict[str, tuple[Callable[..., ExportedFile], tuple[str, ...]]] = {
    "onnx": (export_onnx, ("external_data", "memory_megabytes", "tokenizer")),
    "tflite": (export_tflite, ("tflite_table", "tflite_sizes")),
}


@interactive
def save(
    model: nn.Module,
    path: StrPath,
    example_inputs: ExampleInputs,
    dynamic_shapes: Any = None,
    *,
    vocabulary: Sequence[str] | Mapping[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    force: bool = False,
) -> Path:
    """Write a file that exports and validates anywhere, without the model's class and without running its code.

    Args:
        model: any module; it is traced in eval mode and left as it was.
        path: usually ``model.pt``.
        example_inputs: a tensor, a sequence of positional inputs, or a mapping of keyword inputs.
        dynamic_shapes: as for ``torch.export.export``. By default every dimension that the model allows
            is dynamic, also where the example has size 1.
        vocabulary: the token of every id, or a mapping from tokens to ids; it travels into the exported file. A warning
            tells where no table has as many rows.
        metadata: strings that travel with the model (task, tokenizer, licence, ...).
        force: overwrite an existing file.

    Raises:
        BadInputError: if the model cannot be traced or read back (the operator or feature is named), or does
            not run on its example inputs.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    with new_file(checked_path("path", path), force=force) as temporary:
        write_program(model, temporary, example_inputs, dynamic_shapes, vocabulary, metadata)
    return Path(path)


def load(
    model: Model,
    example_inputs: ExampleInputs | None = None,
    dynamic_shapes: Any = None,
    *,
    inputs: Sequence[ProgramInput] = (),
    allow_pickle: bool = False,
    factory: Factory | None = None,
    weights: str | None = None,
    tables: Collection[str] = (),
    reading: Reading = AS_IT_SHOWS,
) -> Program:
    """The program of a module, or of a file that holds one.

    Args:
        model: a module (then ``example_inputs`` is needed) or the path of a saved one, of the folder of one of
            transformers, or of word vectors: word2vec, GloVe, fastText, model2vec, safetensors, npy or npz.
        example_inputs: for a module, as for `save`.
        dynamic_shapes: for a module, as for `save`.
        inputs: for a plain ``torch.save`` file: name, dtype and shape of the inputs it lacks.
        allow_pickle: run code from the file if it cannot be read otherwise.
        factory: for a file of weights (a state_dict or a checkpoint): makes the module that they are for.
        weights: where in a checkpoint they are, such as ``ema.module``, where several fit.
        tables: for safetensors and npz with several tables and without a factory: the name of the one that is wanted.
        reading: for word vectors: whether rows have tokens, and what becomes of those that are broken or come twice.

    Raises:
        BadInputError: if the file is damaged, hostile or not a model, or the module cannot be traced.
    """
    if not isinstance(model, nn.Module | str | PathLike):
        expected = "expected a module or the path of a file: load weights into their module"
        raise BadInputError(f"model: got a {type(model).__name__}, {expected}")
    if not isinstance(model, nn.Module):
        if weights is not None and factory is None:
            raise BadInputError("--weights: is for a checkpoint, with the function that makes its model: give --model")
        found = load_foreign(Path(model), tables, inputs, reading) if factory is None else None
        if found is not None:
            return found
        if reading.given:
            raise BadInputError(f"{model}: {', '.join(reading.given)}: is for word vectors, and this is none")
        return load_program(Path(model), inputs, allow_pickle, factory, weights)
    if example_inputs is None:
        raise BadInputError(f"{type(model).__name__} is a module: give example_inputs as well")
    return capture_program(model, example_inputs, dynamic_shapes)


class Wanted(TypedDict, total=False):
    """Keywords of `compress`."""

    ratio: float | None
    budget: int | str | None
    min_cosine: float | None
    modules: Collection[str]
    counts: Mapping[str, Tensor] | None
    trainable: bool
    seed: int
    checkpoint: StrPath | None
    output: StrPath | None
    force: bool
    progress: Progress
    group: "ProcessGroup | None"
    num_codes: int | None
    num_groups: int | None
    num_anchors: int | None
    nonzeros: float | None
    rank: int | None
    bits: int | None
    value_type: str | None
    weight_type: str | None
    open: bool


@overload
def compress(model: nn.Module, method: str = "auto", **wanted: Unpack[Wanted]) -> CompressedModule: ...


@overload
def compress(model: Program, method: str = "auto", **wanted: Unpack[Wanted]) -> CompressedProgram: ...


@overload
def compress(model: StrPath, method: str = "auto", **wanted: Unpack[Wanted]) -> CompressedProgram | CompressedFile: ...


@interactive
def compress(
    model: Model | Program,
    method: str = "auto",
    *,
    ratio: float | None = None,
    budget: int | str | None = None,
    min_cosine: float | None = None,
    modules: Collection[str] = (),
    counts: Mapping[str, Tensor] | None = None,
    trainable: bool = False,
    seed: int = 0,
    checkpoint: StrPath | None = None,
    output: StrPath | None = None,
    force: bool = False,
    progress: Progress = BARS,
    group: "ProcessGroup | None" = None,
    num_codes: int | None = None,
    num_groups: int | None = None,
    num_anchors: int | None = None,
    nonzeros: float | None = None,
    rank: int | None = None,
    bits: int | None = None,
    value_type: str | None = None,
    weight_type: str | None = None,
    open: bool = True,
) -> CompressedModule | CompressedProgram | CompressedFile:
    """Put compressed tables in the place of dense ones, in a model that is trained already.

    Wanted is one of ``ratio``, ``budget``, ``min_cosine``, or sizes of a method. Of several settings that serve the one
    nearest to the dense table is taken, and for ``min_cosine`` the smallest; the others are in the report.

    Args:
        model: a module, which stays as it is; the path of a saved model, of the folder of one of transformers, of word
            vectors, or of an ONNX or TFLite file of any tool; or a program (`edge_embed.workflow.load`).
        method: ``dpq`` (product quantisation by k-means), ``opq`` (of rows that are rotated first), ``ant`` (sparse
            coding), ``tt`` and ``tr`` (singular value decompositions), ``low_rank`` (one of them, as a tensor train of
            two cores), ``rows`` (integers with a scale for each row, which do not learn on), or ``auto``: all of these,
            but ``opq`` only where its rotation becomes a part of the next layer.
        ratio: bytes of each table, as the model holds it, over those of its packed form, at least.
        budget: in place of ``ratio``: bytes of all packed tables together, at most; or text such as ``"3 MB"``.
        min_cosine: mean cosine of the rows with the dense ones, at least. Beside another goal it is a condition.
        modules: names of the layers whose tables are wanted, ``nn.Linear`` too; of an ONNX or TFLite file, of the
            constants. By default all tables that rows are looked up of and that hold a twentieth of the model; tied
            heads follow their table.
        counts: by the name of a table: how often each row comes up, numbers >= 0 [n]. Frequent rows count more in what
            is measured, and with all methods but rows come nearer to the dense ones.
        trainable: of a module: the layers learn on from where they are.
        seed: of all that is drawn.
        checkpoint: folder where finished parts are kept until the result is there: after an interruption the same call
            goes on from them. They take about as much as the compressed tables; the others have none.
        output: of a saved model: where the compressed one is written, as by `save`; of an ONNX or TFLite file,
            which needs one, as a file like it.
        force: overwrite an existing file.
        progress: called with (step, done, in all); by default a bar on stderr, where that is a terminal or a notebook.
        group: processes that share the work, such as ``torch.distributed.group.WORLD``: each makes this call with equal
            arguments and gets the same result; the first alone writes ``output`` and keeps parts. With dpq, ant and
            rows it is that of one process with as many threads, bit for bit, with the others to rounding. What one
            process refuses all do. None: this one has all of the work.
        num_codes: in place of a goal: codes K of a group (dpq, opq), with ``num_groups``.
        num_groups: groups D, which divide the columns.
        num_anchors: in place of a goal: anchors A (ant), with ``nonzeros``.
        nonzeros: weights of a row, on average.
        rank: in place of a goal: the rank R (tt, tr, low_rank).
        bits: in place of a goal: of each number, 2 to 8 (rows).
        value_type: with sizes: type of stored values, as of ``freeze`` of the layers.
        weight_type: with sizes: type of the weights of ant.
        open: of an ONNX or TFLite file: open what is written once, as `export` does, before it gets its name.

    Returns:
        ``model``: a copy with compressed layers (frozen, unless they are trainable), a program for `export`, or the
        path of the ONNX or TFLite file that was written, and ``report``: how near they are.

    Raises:
        BadInputError: if what is wanted is not clear, a name is of no table, or no table is worth it or can be replaced
            (the reasons are named), or a table holds what float32 cannot, or the runtime does not open what was made of
            an ONNX or TFLite file; or the group is not of gloo.
        SizeError: if a table cannot be as small as wanted, or gets no smaller.
        ParityError: if a table cannot be as near as wanted.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    if not isinstance(model, nn.Module | Program | str | PathLike):
        expected = "expected a module, the path of a file, or a program: load weights into their module"
        raise BadInputError(f"model: got a {type(model).__name__}, {expected}")
    if not isinstance(checkpoint, str | PathLike | None):
        raise BadInputError(f"checkpoint: got {checkpoint!r:.80}, expected the path of a folder")
    if output is not None:
        checked_path("output", output)
    modules = (modules,) if isinstance(modules, str) else modules
    with located("budget"):
        most_bytes = None if budget is None else read_bytes(budget)
    sizes = {
        "num_codes": num_codes,
        "num_groups": num_groups,
        "num_anchors": num_anchors,
        "nonzeros": nonzeros,
        "rank": rank,
        "bits": bits,
        "value_type": value_type,
        "weight_type": weight_type,
    }
    given = {name: size for name, size in sizes.items() if size is not None}
    plan = Plan(method, ratio, most_bytes, min_cosine, given, trainable, seed)
    processes = Processes(group)
    with Kept(None if checkpoint is None else Path(checkpoint), processes) as kept:
        job = Job(plan, modules, {} if counts is None else counts, kept, progress, processes)
        if isinstance(model, nn.Module):
            if output is not None:
                raise BadInputError("output: got one for a module: leave it out, and save what this returns")
            return compress_module(model, job)
        if trainable:
            raise BadInputError("trainable: a saved model does not learn: give the module")
        if not isinstance(model, Program) and (in_place := _in_place(Path(model))):
            if output is None:
                raise BadInputError(f"output: got none for {model}: give the path to write")
            target = "onnx" if in_place is compress_onnx else "tflite"
            check_name(Path(output), f".{target}")
            processes.first(lambda: check_output([Path(output)], [model], force))
            opening = Opening(target, Path(output), Path(model))
            written = in_place(Path(model), job, Path(output), force, opening if open else keep_unopened)
            opened = processes.same(lambda: opening.opened)
            return written._replace(report=replace(written.report, opened=opened))
        if output is not None:
            check_name(Path(output), ".pt")
            processes.first(lambda: check_output([Path(output)], _paths(model), force))
        program = model if isinstance(model, Program) else load(model, tables=modules)
        if output is None:
            return compress_program(program, job)
        processes.first(lambda: keep_inputs([Path(output)], [program.source]))
        compressed = compress_program(program, job)
        rewritten = processes.first(lambda: _rewrite(compressed.model, Path(output), force))
        return compressed if rewritten is None else compressed._replace(model=rewritten)


def _rewrite(program: Program, output: Path, force: bool) -> Program:
    with new_file(output, force=force) as temporary:
        return rewrite_program(program, temporary)


def _in_place(path: Path) -> Callable[..., CompressedFile] | None:
    """What compresses a file that a runtime opens, whatever tool it is of; None for other files."""
    found = compress_onnx if is_onnx_file(path) else compress_tflite if is_tflite_file(path) else None
    if found is not None:
        check_runtime_file(path)
    return found


_OF_ZEROS = (
    "all rows are zero. Train it again: a lower penalty (lambda of ANT) or learning rate keeps rows, and so does the "
    "model of an earlier epoch"
)


def _warn_of_zeros(lowered: LoweredProgram) -> LoweredProgram:
    for name in lowered.zero_tables():
        _LOG.warning("table %s: %s", name, _OF_ZEROS)
    return lowered


@interactive
def lower(model: Model, example_inputs: ExampleInputs | None = None, progress: Progress = BARS) -> LoweredProgram:
    """Pack every compressed table of a model; the result lists what was lowered and what was left, and why.

    Args:
        model: a module or the path of a saved one.
        example_inputs: for a module, as for `save`.
        progress: called with (table, rows done, rows in all).
    """
    return _warn_of_zeros(lower_program(_runnable(model, example_inputs), progress))


def _runnable(
    model: Model | Program, example_inputs: ExampleInputs | None = None, dynamic_shapes: Any = None
) -> Program:
    """The program of a model, in the types that runtimes compute in."""
    return in_float32(model if isinstance(model, Program) else load(model, example_inputs, dynamic_shapes))


def _paths(*inputs: object) -> list[StrPath]:
    """Those that are paths: of files that a command reads."""
    return [path for path in inputs if isinstance(path, str | PathLike)]


def check_target(target: str, options: Iterable[str] = ()) -> None:
    """Raise `BadInputError` for a target that is not known, and name those that are, or that has not an option."""
    if target not in TARGETS:
        raise BadInputError(
            f"unknown target {target!r}: {suggested(str(target), TARGETS)}expected one of {', '.join(sorted(TARGETS))}"
        )
    for option in options:
        if option not in TARGETS[target][1]:
            (owner,) = (name for name, (_, names) in TARGETS.items() if option in names)
            raise BadInputError(f"{option}: got one for target {target}, expected it with {owner} only: leave it out")


@interactive
def export(
    model: Model | Program,
    target: str,
    output: StrPath,
    example_inputs: ExampleInputs | None = None,
    dynamic_shapes: Any = None,
    *,
    external_data: ExternalData | None = None,
    memory_megabytes: int | None = None,
    tokenizer: StrPath | None = None,
    tokenizer_input: str | None = None,
    tflite_table: str | None = None,
    tflite_sizes: Mapping[str, Sequence[int]] | None = None,
    allow_empty: bool = False,
    open: bool = True,
    force: bool = False,
    progress: Progress = BARS,
) -> ExportReport:
    """Write a model for a target runtime, tables packed.

    Args:
        model: a module, the path of a saved one, or a program (`edge_embed.workflow.load`).
        target: ``"onnx"`` or ``"tflite"``.
        output: the file to write.
        example_inputs: for a module, as for `save`.
        dynamic_shapes: for a module, as for `save`.
        external_data: for onnx: ``auto``, ``always`` or ``never`` put weights into ``<output>.data``.
        memory_megabytes: for onnx: MiB that a session with the operator library may take for each use of a table, to
            be faster: for rows of TT, without it none, and for heads of DPQ, without it as much as their codes.
        tokenizer: for onnx: a ``tokenizer.json`` (Hugging Face) to put in front of the model, which then takes
            ``text``.
        tokenizer_input: name of the input for ids, where the model has several inputs of integers.
        tflite_table: for tflite: how DPQ tables are looked up: ``byte``, ``pairs`` (faster and larger), or by default
            ``auto``, which takes pairs where they add at most a fifth to the table.
        tflite_sizes: for tflite: sizes by name of the dynamic dimension, for a signature each. By default a model of
            rows and bags stays dynamic; others, converted by litert-torch, have the sizes of the example.
        allow_empty: export a table of which all rows are zero.
        open: open the file once, in a process of its own, before it gets its name: in ONNX Runtime, with the operator
            library and without, or in LiteRT.
        force: overwrite existing files.
        progress: called with (table, rows done, rows in all).

    Raises:
        BadInputError: if the target is unknown or has not an option that is given, or the model has no compressed table
            or one of which all rows are zero, or cannot be exported, or the tokenizer is damaged, does not fit the
            model or would give other ids than the library `tokenizers`, or the runtime does not open what was exported.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    given: dict[str, Any] = {
        "external_data": external_data,
        "memory_megabytes": memory_megabytes,
        "tokenizer": tokenizer,
        "tflite_table": tflite_table,
        "tflite_sizes": tflite_sizes,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    check_target(target, chosen)
    output = checked_path("output", output)
    if tokenizer is not None:
        tokenizer = checked_path("tokenizer", tokenizer)
    check_output([Path(output)], [*_paths(model), tokenizer], force)
    program = _runnable(model, example_inputs, dynamic_shapes)
    keep_inputs([Path(output), weights_file(Path(output))], [program.source, tokenizer])
    checked = None
    if tokenizer is not None:
        chosen["tokenizer"], checked = fit_tokenizer(Path(tokenizer), program, tokenizer_input)
    elif tokenizer_input is not None:
        raise BadInputError(f"tokenizer_input: got {tokenizer_input!r} without a tokenizer: give that too")
    lowered = lower_program(program, progress)
    zeros = lowered.zero_tables()
    if zeros and not allow_empty:
        remedy = "--allow-empty (allow_empty=True) exports it as it is"
        raise BadInputError("; ".join(f"table {name}: {_OF_ZEROS}" for name in zeros) + f"; {remedy}")
    exporter, _ = TARGETS[target]
    opening = Opening(target, Path(output))
    exported = exporter(lowered, Path(output), **chosen, force=force, on_written=opening if open else keep_unopened)
    return replace(_report(lowered, exported), tokenizer=checked, opened=opening.opened, source=program.facts)


def _report(lowered: LoweredProgram, exported: ExportedFile) -> ExportReport:
    return ExportReport(
        {path: path.stat().st_size for path in exported.files},
        exported.tables,
        exported.dynamic,
        exported.frozen,
        signatures=exported.signatures,
        widened=lowered.program.widened,
    )


@interactive
def validate(
    model: Model | Program,
    exported: StrPath,
    example_inputs: ExampleInputs | None = None,
    options: ValidationOptions | None = None,
    progress: Progress = BARS,
    *,
    atol: float | Mapping[str, float] | None = None,
    rtol: float | Mapping[str, float] | None = None,
    seed: int | None = None,
    iterations: int | None = None,
    warmup: int | None = None,
    more_cases: int | None = None,
    inputs: StrPath | None = None,
    save_inputs: StrPath | None = None,
    save_worst: StrPath | None = None,
    force: bool | None = None,
    targets: Collection[str] | None = None,
    time_limit: float | None = None,
    tokenizer: StrPath | None = None,
    changed_after_export: bool | None = None,
) -> ValidationReport:
    """Compare an exported file with the model it came from: rows, outputs, sizes, latency.

    Args:
        model: a module, the path of a saved one, or a program (`edge_embed.workflow.load`); of a file that `compress`
            wrote in place, the path of the ``.onnx`` or ``.tflite`` file that it was made from.
        exported: the ``.onnx`` or ``.tflite`` file.
        example_inputs: for a module, as for `save`.
        options: all that may be chosen (`ValidationOptions`); each of the following takes the place of one of them.
        progress: called with (step, done, in all).
        atol: absolute tolerance of the outputs, or of each by its name.
        rtol: relative tolerance, alike.
        seed: of ids, inputs and the order of measurements.
        iterations: measured rounds per latency figure; 0 measures none.
        warmup: rounds before them.
        more_cases: inputs of random sizes beyond the usual ones.
        inputs: file of inputs for the whole model, in place of random ones.
        save_inputs: file to write the inputs to.
        save_worst: file to write those to on which an output was farthest off.
        force: overwrite existing files.
        targets: where the model is to run besides, such as ``["portable"]``.
        time_limit: seconds that each step may take.
        tokenizer: the tokenizer.json that the exported file has, to compare ids with.
        changed_after_export: a tool changed the file on purpose.

    Raises:
        BadInputError: if a file is damaged or an option impossible. A sound file whose content differs is a failed
            report instead.
        TimeLimitError: if a call of ONNX Runtime takes longer than the options allow. What else may go on for ever (the
            reference evaluator, a session that is made) only the command line ends, in a process of its own.
    """
    given: dict[str, Any] = {
        "atol": atol,
        "rtol": rtol,
        "seed": seed,
        "iterations": iterations,
        "warmup": warmup,
        "force": force,
    }
    given |= {"more_cases": more_cases, "inputs": inputs, "save_inputs": save_inputs, "save_worst": save_worst}
    given |= {"targets": targets, "time_limit": time_limit, "tokenizer": tokenizer}
    if not isinstance(options, ValidationOptions | None):
        expected = "expected edge_embed.ValidationOptions: give the options as keywords"
        raise BadInputError(f"options: got a {type(options).__name__}, {expected}")
    options = (options or ValidationOptions()).given(**given, changed_after_export=changed_after_export)
    exported = checked_path("exported", exported)
    check_runtime_file(exported)
    for saved in filter(None, (options.save_inputs, options.save_worst)):
        check_output([saved], [*_paths(model), exported, options.inputs, options.tokenizer], options.force)
    with _lowered(model, Path(exported), example_inputs, progress) as (program, lowered):
        keep_inputs(
            (options.save_inputs, options.save_worst), (program.source, exported, options.inputs, options.tokenizer)
        )
        return validate_file(program, lowered, Path(exported), options, progress)


@contextmanager
def _lowered(
    model: Model | Program, exported: Path, example_inputs: ExampleInputs | None, progress: Progress
) -> Iterator[tuple[Program, LoweredProgram]]:
    """The program that an exported file is compared with, and its packed tables."""
    if isinstance(model, str | PathLike) and is_runtime_file(Path(model)):
        if example_inputs is not None:
            raise BadInputError(f"example_inputs: got some for {model}, which declares its inputs: leave them out")
        with open_pair(Path(model), exported) as opened:
            yield opened
        return
    program = _runnable(model, example_inputs)
    yield program, _warn_of_zeros(lower_program(program, progress))


@interactive
def check(
    model: Model | Program | None = None,
    exported: StrPath | None = None,
    example_inputs: ExampleInputs | None = None,
    *,
    budget: Budget | StrPath | None = None,
    baseline: StrPath | None = None,
    base: StrPath | None = None,
    base_library: StrPath | None = None,
    output: StrPath | None = None,
    junit: StrPath | None = None,
    markdown: StrPath | None = None,
    html: StrPath | None = None,
    force: bool = False,
    progress: Progress = BARS,
    accept: bool = False,
    load_options: Sequence[str] = (),
) -> CheckReport:
    """Check an exported file against a budget, an earlier report and an earlier file, as a pull request needs it.

    Args:
        model: as for `validate`; by default the one that the budget names.
        exported: the ``.onnx`` or ``.tflite`` file; by default the one that the budget names.
        example_inputs: for a module, as for `save`.
        budget: ``edge-embed.toml`` (`edge_embed.gate.budget`), or one that was read. Without one, parity is checked.
        baseline: the JSON report of an earlier check, which sizes must not exceed by more than the budget's growth;
            by default the one that the budget names.
        base: an earlier file of the same kind, beside which the latency is measured.
        base_library: for onnx: the operator library for ``base``; by default the one that ``exported`` runs with.
        output: write the report here as JSON.
        junit: write it here as JUnit XML.
        markdown: write it here as Markdown.
        html: write it here as one HTML page.
        force: overwrite existing reports.
        progress: called with (step, done, in all).
        accept: make this state the baseline in place of comparing with it, unless something else fails.
        load_options: of the command line that loads ``model``, for the command that the report names.

    Returns:
        The report. What fails is in it (``passed``, ``exit_code``, ``failures()``), and it is written all the same.

    Raises:
        BadInputError: if a file is missing or damaged, or the budget is none or names what the model has not.
        OutputError: if a report cannot be written.
        TimeLimitError: as for `validate`, by the budget's limit.
    """
    given = {"exported": exported, "budget": None if isinstance(budget, Budget) else budget, "baseline": baseline}
    given |= {"base": base, "base_library": base_library}
    given |= {"output": output, "junit": junit, "markdown": markdown, "html": html}
    for name, path in given.items():
        if path is not None:
            checked_path(name, path)
    limits = budget if isinstance(budget, Budget) else Budget() if budget is None else read_budget(Path(budget))
    reference = limits.model if model is None else model
    file = limits.exported if exported is None else Path(exported)
    if reference is None or file is None:
        missing = "model" if reference is None else "exported"
        raise BadInputError(f"got no {missing} file: give MODEL and EXPORTED, or name them in the budget")
    for runs in (file, base):
        if runs is not None:
            check_runtime_file(Path(runs))
    earlier = limits.baseline if baseline is None else Path(baseline)
    if accept and earlier is None:
        raise BadInputError("accept: got no baseline to replace: give it, or name it in the budget")
    source = reference.source if isinstance(reference, Program) else reference
    read = (source, file, base, base_library, limits.path, limits.tokenizer)
    inputs = _paths(*read)
    if accept and earlier is not None:
        check_output([earlier], inputs, force=True)
    places = {"output": output, "junit": junit, "markdown": markdown, "html": html}
    with (
        limit_steps(limits.targets.time_limit),
        reports_at(places, CHECK, keep=inputs, replaced=earlier, force=force) as write,
    ):
        with _lowered(reference, file, example_inputs, progress) as (program, lowered):
            report = run_check(
                program,
                lowered,
                file,
                limits,
                baseline=None if accept else earlier,
                base=None if base is None else Path(base),
                base_library=None if base_library is None else Path(base_library),
                progress=progress,
                accept=accept_command(source, file, limits, earlier, load_options),
            )
        if accept and earlier is not None:
            report = accept_report(earlier, report)
        if output is not None:
            report = replace(report, warnings=warnings_of_replacing(Path(output), report))
        write(report)
    return report
