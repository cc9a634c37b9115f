"""The product on one page: compress -> save -> lower -> export -> validate -> check."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack, overload

from torch import nn

from edge_embed.bundle.write import check_bundle_folder, write_bundle
from edge_embed.calibration.calibrate import STEPS
from edge_embed.calibration.compress import compress_by_examples
from edge_embed.calibration.examples import read_examples
from edge_embed.compression.card import card_of
from edge_embed.compression.job import Job
from edge_embed.compression.onnx.compress import compress_onnx
from edge_embed.compression.onnx.compress_genai import compress_genai
from edge_embed.compression.plan import Plan
from edge_embed.compression.programs import (
    CompressedFile,
    CompressedModule,
    CompressedProgram,
    compress_module,
    compress_program,
    tables_of,
)
from edge_embed.compression.tflite.compress import compress_tflite
from edge_embed.errors import BadInputError, located, suggested
from edge_embed.exporters.exported import ExportedFile, keep_unopened
from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.exporters.onnx.storage import ExternalData, weights_file
from edge_embed.exporters.tflite.export import export_tflite
from edge_embed.files import StrPath, check_name, check_once, check_output, checked_path, keep_inputs, new_file
from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.processes import Processes
from edge_embed.fitting.row_counts import RowCounts
from edge_embed.gate.accept_command import accept_command
from edge_embed.gate.budget import Budget, read_budget
from edge_embed.gate.check import run_check
from edge_embed.gate.missing_checks import warnings_of_replacing
from edge_embed.gate.quantities import read_bytes
from edge_embed.gate.report_places import CHECK, accept_report, reports_at
from edge_embed.importers.genai_folder import GenaiFolder, decoder_file, is_genai, read_genai
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.recognize import is_transformers_folder, load_foreign
from edge_embed.inspection.inspect import is_onnx_file, is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress, lower_program
from edge_embed.lowering.id_check import IdCheck, known_id_check
from edge_embed.packed.sizes import MAX_SIZE, check_count
from edge_embed.program.bfloat16 import in_float32
from edge_embed.program.capture import ExampleInputs
from edge_embed.program.file_kind import check_runtime_file
from edge_embed.program.load import capture_program, load_program, rewrite_program, write_program
from edge_embed.program.program import Program, ProgramInput
from edge_embed.program.state_dict import Factory
from edge_embed.report.interactive import BARS, interactive
from edge_embed.report.results.check import CheckReport
from edge_embed.report.results.compressed import CompressReport
from edge_embed.report.results.exported import ExportReport
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.report.results.validation import ValidationReport
from edge_embed.steps import limit_steps
from edge_embed.validation.decoder import program_decoder
from edge_embed.validation.next_tokens import NextTokens, program_texts
from edge_embed.validation.opening import Opening
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.cached_sizes import is_cached
from edge_embed.validation.pair.open import is_runtime_file, open_pair
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.tokenizer import fit_tokenizer
from edge_embed.validation.validate_file import validate_file

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup  # not in every build of torch

Model = nn.Module | StrPath
_Written = TypeVar("_Written", CompressedProgram, CompressedFile)

_LOG = logging.getLogger(__name__)


class _Examples(NamedTuple):
    """Files of examples for a compression.

    Attributes:
        texts: text that both models predict.
        calibrate: examples that tables are fitted to.
        tokenizer: tokenizer of texts.
        steps: steps of the fit.
    """

    texts: Path | None
    calibrate: Path | None
    tokenizer: Path | None
    steps: int

    @property
    def files(self) -> list[Path]:
        """Files that are read."""
        return [each for each in (self.texts, self.calibrate, self.tokenizer) if each is not None]


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
    """Write a file that exports and validates anywhere, without the class of the model and without running its code.

    Args:
        model: any module; it is traced in eval mode and left unchanged.
        path: usually ``model.pt``.
        example_inputs: a tensor, a sequence of positional inputs, or a mapping of keyword inputs.
        dynamic_shapes: as for ``torch.export.export``. By default every dimension that the model allows is dynamic,
            also if its size is 1 in the example.
        vocabulary: the token of every id, or a mapping from tokens to ids. The exported file contains it. A warning is
            issued if no table has as many rows.
        metadata: strings that are stored with the model (task, tokenizer, licence, ...).
        force: overwrite an existing file.

    Returns:
        The path.

    Raises:
        BadInputError: the model cannot be traced or read back, or fails on its example inputs; the message names the
            operator or the feature.
        OutputError: the file cannot be written; no partial file remains.
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
    cache: bool = True,
) -> Program:
    """Return the program of a module, or of a file that contains one.

    Args:
        model: a module, with ``example_inputs``, or a path: of a saved model, of the folder of a transformers model, or
            of word vectors (word2vec, GloVe, fastText, model2vec, safetensors, npy or npz).
        example_inputs: for a module, as for `save`.
        dynamic_shapes: for a module, as for `save`.
        inputs: for a plain ``torch.save`` file: name, dtype and shape of the inputs, which the file lacks.
        allow_pickle: run code from the file if it cannot be read otherwise.
        factory: for a file of weights (a state_dict or a checkpoint): function that returns its module.
        weights: path of the weights in a checkpoint, such as ``ema.module``, if several sets fit.
        tables: for safetensors and npz with several tables and without a factory: name of the table to read.
        reading: for word vectors: whether rows begin with tokens, and the handling of broken and repeated tokens.
        cache: for the folder of a model that generates, with or without an encoder: keys and values of earlier tokens
            are inputs, those of all tokens are outputs, and logits are those of the last position. False selects
            logits of all positions, without them.

    Raises:
        BadInputError: the file is damaged, hostile or not a model, or the module cannot be traced.
    """
    if not isinstance(model, nn.Module | str | PathLike):
        expected = "expected a module or the path of a file: load weights into their module"
        raise BadInputError(f"model: got a {type(model).__name__}, {expected}")
    if not cache and (isinstance(model, nn.Module) or not is_transformers_folder(Path(model))):
        found = f"a {type(model).__name__}" if isinstance(model, nn.Module) else str(model)
        raise BadInputError(f"--no-cache: got {found}, expected the folder of a transformers model: leave it out")
    if not isinstance(model, nn.Module):
        if weights is not None and factory is None:
            raise BadInputError("--weights: requires --model, the function that makes the model of the checkpoint")
        foreign = load_foreign(Path(model), tables, inputs, reading, cache) if factory is None else None
        if foreign is not None:
            return foreign
        if reading.given:
            raise BadInputError(f"{model}: got {', '.join(reading.given)}, expected word vectors; leave it out")
        return load_program(Path(model), inputs, allow_pickle, factory, weights)
    if example_inputs is None:
        raise BadInputError(f"{type(model).__name__} is a module; give example_inputs as well")
    return capture_program(model, example_inputs, dynamic_shapes)


class Wanted(TypedDict, total=False):
    """Keywords of `compress`."""

    ratio: float | None
    budget: int | str | None
    min_cosine: float | None
    modules: Collection[str]
    counts: Mapping[str, RowCounts] | None
    other_counts: Mapping[str, RowCounts] | None
    objective: str | None
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
    library: bool
    texts: StrPath | None
    tokenizer: StrPath | None
    calibrate: StrPath | None
    calibration_steps: int
    card: StrPath | None


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
    counts: Mapping[str, RowCounts] | None = None,
    other_counts: Mapping[str, RowCounts] | None = None,
    objective: str | None = None,
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
    library: bool = True,
    memory_megabytes: int | None = None,
    texts: StrPath | None = None,
    tokenizer: StrPath | None = None,
    calibrate: StrPath | None = None,
    calibration_steps: int = STEPS,
    card: StrPath | None = None,
) -> CompressedModule | CompressedProgram | CompressedFile:
    """Replace the dense tables of a trained model by compressed ones, without training.

    The goal is one of ``ratio``, ``budget``, ``min_cosine``, or the sizes of a method. Among the settings that meet the
    goal, the one with the highest mean cosine is selected; for ``min_cosine``, the smallest one. The report lists the
    others. In a program, one linear or recurrent layer may be the only one that takes the rows of a table. The error of
    their products with its weight then decides, and ``low_rank`` keeps the directions that it reads. With
    ``min_cosine``, both compare rows.

    Args:
        model: a module, which stays unchanged; a program (`edge_embed.workflow.load`); or a path. A file is a
            saved model, word vectors, or an ONNX or TFLite model of any tool. A folder is that of a transformers model
            or of a decoder for ONNX Runtime GenAI.
        method: one of

            - ``dpq``: product quantisation by k-means;
            - ``opq``: the same after a rotation of the rows;
            - ``ant``: sparse coding;
            - ``tt`` and ``tr``: singular value decompositions;
            - ``low_rank``: one such decomposition, stored as a tensor train of two cores;
            - ``rows``: integers with a scale for each row; trainable layers are `IntegerEmbedding`;
            - ``tiered``: frequent rows get more bytes than rare ones, by ``counts`` or ``calibrate`` where they
              are given; trainable layers are `TieredEmbedding`;
            - ``auto``: all of them; ``opq`` only if the next layer can absorb the rotation.
        ratio: smallest compression ratio of each table: its bytes in the model over those of its packed form.
        budget: largest size of all packed tables together: bytes, or text such as ``"3 MB"``.
        min_cosine: smallest mean cosine between packed and dense rows. Beside another goal it is a condition.
        modules: names of the layers to compress, ``nn.Linear`` included; for an ONNX or TFLite file, of the constants.
            By default, looked-up tables with at least 5 % of the parameters are compressed; tied output layers follow
            their table.
        counts: for each table by name, the occurrences of its rows, numbers >= 0 [n]. If the smallest one above 0 is
            below 1, they are relative frequencies, and it is taken as one occurrence. Or ``"order"``, which assumes
            that rows are sorted by frequency, n / (rank + 1). Frequent rows weigh more in all figures, and all methods
            except ``rows`` fit them more closely.
        other_counts: the same for other data, under which the report measures a tiered table too.
        objective: of ``tiered``: ``rows`` weights rows by (count + 1/2)^(1/2), ``bags`` by count + 1/2 for sums and
            means of rows, ``logits`` by (count + 1/2)^(3/4) for output layers whose first choice matters. By default
            ``logits`` if ``calibrate`` stands for counts, otherwise ``bags`` for a table that only bags of mode sum or
            mean use, and ``rows`` for others.
        trainable: for a module: leave the layers trainable, for fine-tuning.
        seed: random seed.
        checkpoint: folder that stores finished parts until the result is complete. After an interruption the same call
            resumes from them. They take about as many bytes as the compressed tables.
        output: for a saved model: path of the compressed model, written as by `save`; for an ONNX or TFLite file or a
            GenAI folder, which require it: path of the new file or folder.
        force: overwrite an existing file.
        progress: called with (step, done, total). By default a bar on stderr, in terminals and notebooks.
        group: processes that share the work, such as ``torch.distributed.group.WORLD``. Each makes this call with equal
            arguments and gets the same result; only the first writes ``output`` and ``checkpoint``. For ``dpq``,
            ``ant`` and ``rows`` the result equals that of one process bit for bit, for other methods up to rounding.
        num_codes: codes K per group (``dpq``, ``opq``), with ``num_groups``.
        num_groups: groups D, a divisor of the columns (``dpq``, ``opq``).
        num_anchors: anchors A (``ant``), with ``nonzeros``.
        nonzeros: mean number of weights per row (``ant``).
        rank: rank R (``tt``, ``tr``, ``low_rank``).
        bits: bits per weight, 2 to 8 (``rows``).
        value_type: with sizes: type of stored values, as for ``freeze`` of the layers.
        weight_type: with sizes: type of the weights (``ant``).
        open: for an ONNX or TFLite file or a GenAI folder: open the new file once in its runtime before it gets its
            name.
        library: for a GenAI folder: put the operator library of this machine into the new folder. Without it, the
            portable bodies run.
        memory_megabytes: for an ONNX file or a GenAI folder: session memory in MiB for each use of a table, as for
            `export`.
        texts: for a transformers folder or a saved model of a decoder: text that it and the compressed model predict
            token by token. The report has the difference.
        tokenizer: the ``tokenizer.json`` for texts; by default the one in the folder of the model.
        calibrate: for a transformers folder or a saved model: examples, on which the outputs of the model stay closer
            to those before compression. They weigh rows without counts, unless the goal is a cosine. Codes and stored
            values are then fitted to the outputs. It is a text for a decoder, or an ``.npz`` file of inputs, as
            ``validate`` saves and reads them.
        calibration_steps: number of steps of the fit of values.
        card: path of a model card to write, such as ``README.md``; requires ``output``.

    Returns:
        ``model``: a copy with compressed layers, frozen unless ``trainable``; a program for `export`; or the path of
        the new ONNX or TFLite file or GenAI folder. ``report``: the reconstruction errors and all settings that were
        tried.

    Raises:
        BadInputError: the goal is ambiguous, a name is unknown, or no table can be replaced (with the reasons). Also: a
            table holds numbers outside of float32, the runtime cannot open the new file, the group is not gloo, or the
            model is no decoder that can predict the texts.
        SizeError: a table cannot be as small as required, or gets no smaller.
        ParityError: a table cannot be as accurate as required.
        OutputError: the file cannot be written; no partial file remains.
    """
    if not isinstance(model, nn.Module | Program | str | PathLike):
        expected = "expected a module, the path of a file, or a program: load weights into their module"
        raise BadInputError(f"model: got a {type(model).__name__}, {expected}")
    if not isinstance(checkpoint, str | PathLike | None):
        raise BadInputError(f"checkpoint: got {checkpoint!r:.80}, expected the path of a folder")
    if output is not None:
        checked_path("output", output)
    if card is not None and output is None:
        raise BadInputError(f"card: got {card!r:.80} without an output, expected the path of the compressed model too")
    if memory_megabytes is not None:
        _check_memory(model, memory_megabytes)
    examples = _examples_of(model, texts, calibrate, tokenizer, calibration_steps)
    if not (library or (isinstance(model, str | PathLike) and is_genai(Path(model)))):
        raise BadInputError("library: got False, expected a GenAI folder: other models hold no operator library")
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
    plan = Plan(method, ratio, most_bytes, min_cosine, given, trainable, seed, objective)
    processes = Processes(group)
    with Kept(None if checkpoint is None else Path(checkpoint), processes) as kept:
        known, others = ({} if each is None else each for each in (counts, other_counts))
        job = Job(plan, modules, known, kept, progress, processes, others)
        if isinstance(model, nn.Module):
            if output is not None:
                raise BadInputError("output: got one for a module; leave it out, and save the returned module")
            return compress_module(model, job)
        if trainable:
            raise BadInputError("trainable: a saved model cannot be trained; give the module")
        if not isinstance(model, Program) and (in_place := _in_place(Path(model), library, memory_megabytes)):
            if output is None:
                raise BadInputError(f"output: got none for {model}: give the path to write")
            with _card(card, model, Path(output), job, force) as describe:
                return describe(in_place(Path(model), job, Path(output), force, open))
        if output is None:
            return _compress_program(model, job, None, force, examples)
        with _card(card, model, Path(output), job, force) as describe:
            return describe(_compress_program(model, job, Path(output), force, examples))


@contextmanager
def _card(
    card: StrPath | None, model: StrPath | Program, output: Path, job: Job, force: bool
) -> Iterator[Callable[[_Written], _Written]]:
    """Yield a function that writes the model card of a result, if a card is requested, and returns the result.

    The checks for the card run now, before minutes of work. The first process writes it.
    """
    if card is None:
        yield lambda written: written
        return
    path, source = checked_path("card", card), model.source if isinstance(model, Program) else Path(model)
    check_once({"card": path, "output": output})
    job.processes.first(lambda: check_output([path], _paths(source), force))
    if not job.processes.is_first:
        yield lambda written: written
        return
    with new_file(path, force=force) as temporary:

        def describe(written: _Written) -> _Written:
            if isinstance(written, CompressedProgram):
                text = card_of(written.report, job, source, output, metadata=written.model.metadata)
            else:
                text = _card_of_file(written, job, source)
            temporary.write_text(text, encoding="utf-8")
            return written

        yield describe


def _card_of_file(written: CompressedFile, job: Job, source: Path | None) -> str:
    """Return the card of a file for a runtime, or of a GenAI folder."""
    if is_genai(written.model):
        return card_of(written.report, job, source, decoder_file(written.model), written.model.absolute().name)
    return card_of(written.report, job, source, written.model)


def _compress_program(
    model: StrPath | Program, job: Job, output: Path | None, force: bool, examples: _Examples
) -> CompressedProgram:
    """Compress a program, fit its values to examples and compare predictions, then write the file if requested."""
    first, read = job.processes.first, examples.files
    if output is not None:
        first(lambda: check_output([output], _paths(model, *read), force))
        check_name(output, ".pt")
    program = model if isinstance(model, Program) else load(model, tables=job.names)
    if output is not None:
        first(lambda: keep_inputs([output], [program.source, *read]))
    texts, calibrate, tokenizer, steps = examples
    predicted = None if texts is None else first(lambda: program_texts(program, texts, tokenizer))
    fitted_to = None if calibrate is None else first(lambda: read_examples(program, calibrate, tokenizer))
    tables = tables_of(program, job)
    if calibrate is None:
        compressed, _ = compress_program(program, tables, job)
    else:
        compressed = compress_by_examples(program, tables, fitted_to, steps, job)
    if texts is not None:
        compressed = compressed._replace(report=_with_texts(compressed, predicted, job))
    if output is None:
        return compressed
    rewritten = first(lambda: _rewrite(compressed.model, output, force))
    return compressed if rewritten is None else compressed._replace(model=rewritten)


def _examples_of(
    model: Model | Program, texts: StrPath | None, calibrate: StrPath | None, tokenizer: StrPath | None, steps: int
) -> _Examples:
    """Return the files of examples.

    Raises:
        BadInputError: the model has another form, or there is a tokenizer without a text.
    """
    check_count("calibration_steps", steps)
    given = {"texts": texts, "calibrate": calibrate, "tokenizer": tokenizer}
    paths = {name: Path(checked_path(name, file)) for name, file in given.items() if file is not None}
    if not paths.keys() - {"tokenizer"}:
        if tokenizer is not None:
            raise BadInputError(f"tokenizer: got {tokenizer} without texts: give them too, or leave it out")
        return _Examples(None, None, None, steps)
    name, file = next(iter(paths.items()))
    expected = "expected a transformers folder or a saved model"
    if isinstance(model, nn.Module):
        raise BadInputError(f"{name}: got {file} for a module, {expected}: write the model and give the path")
    if isinstance(model, str | PathLike) and (is_genai(Path(model)) or is_runtime_file(Path(model))):
        remedy = {
            "texts": "give them to validate, after the compression",
            "calibrate": "compress the model that this one was exported from",
        }
        raise BadInputError(f"{name}: got {file} for {model}, {expected}: {remedy[name]}")
    return _Examples(paths.get("texts"), paths.get("calibrate"), paths.get("tokenizer"), steps)


def _with_texts(compressed: CompressedProgram, predicted: NextTokens | None, job: Job) -> CompressReport:
    """Return the report with the predictions of both models, which the first process computes."""

    def compare() -> TextPredictions:
        assert predicted is not None
        return predicted.compare(program_decoder(compressed.model), job.progress)

    return replace(compressed.report, texts=job.processes.same(compare))


def _rewrite(program: Program, output: Path, force: bool) -> Program:
    with new_file(output, force=force) as temporary:
        return rewrite_program(program, temporary)


def _check_memory(model: object, megabytes: int) -> None:
    """Raise for session memory of a model whose session has none, or of an impossible size."""
    check_count("memory_megabytes", megabytes, least=0, most=MAX_SIZE >> 20)
    if not (isinstance(model, str | PathLike) and (is_genai(Path(model)) or is_onnx_file(Path(model)))):
        raise BadInputError("memory_megabytes: got a value, expected an ONNX file or a GenAI folder: give it to export")


def _in_place(
    path: Path, library: bool, memory_megabytes: int | None
) -> Callable[[Path, Job, Path, bool, bool], CompressedFile] | None:
    """Return the function that compresses an ONNX or TFLite file or a GenAI folder; None for other files."""
    memory = None if memory_megabytes is None else memory_megabytes << 20
    if is_genai(path):
        return partial(_compress_folder, library=library, memory_bytes=memory)
    if is_onnx_file(path):
        return partial(_compress_file, "onnx", memory_bytes=memory)
    return partial(_compress_file, "tflite") if is_tflite_file(path) else None


def _compress_file(
    target: str, path: Path, job: Job, output: Path, force: bool, opens: bool, **options: Any
) -> CompressedFile:
    check_runtime_file(path)
    check_name(output, f".{target}")
    job.processes.first(lambda: check_output([output], [path], force))
    compress_in_place = compress_onnx if target == "onnx" else compress_tflite
    opening = Opening(target, output, path)
    written = compress_in_place(path, job, output, force, opening if opens else keep_unopened, **options)
    return _with_opened(written, job, opening)


def _compress_folder(
    path: Path, job: Job, output: Path, force: bool, opens: bool, *, library: bool, memory_bytes: int | None
) -> CompressedFile:
    folder = read_genai(path)
    opening = Opening("onnx", output, folder.model)
    written = compress_genai(folder, job, output, force, opening if opens else keep_unopened, library, memory_bytes)
    return _with_opened(written, job, opening)


def _with_opened(written: CompressedFile, job: Job, opening: Opening) -> CompressedFile:
    """Return the result with what the first process, which opened the file, found."""
    opened = job.processes.same(lambda: opening.opened)
    return written._replace(report=replace(written.report, opened=opened))


_OF_ZEROS = (
    "all rows are zero. Train it again with a lower penalty (lambda of ANT) or learning rate, or use the "
    "model of an earlier epoch"
)


def _warn_of_zeros(lowered: LoweredProgram) -> LoweredProgram:
    for name in lowered.zero_tables():
        _LOG.warning("table %s: %s", name, _OF_ZEROS)
    return lowered


@interactive
def lower(model: Model, example_inputs: ExampleInputs | None = None, progress: Progress = BARS) -> LoweredProgram:
    """Pack every compressed table of a model; the result lists lowered tables, and skipped ones with the reason.

    Args:
        model: a module or the path of a saved model.
        example_inputs: for a module, as for `save`.
        progress: called with (table, rows done, total rows).
    """
    return _warn_of_zeros(lower_program(_runnable(model, example_inputs), progress))


def _runnable(
    model: Model | Program, example_inputs: ExampleInputs | None = None, dynamic_shapes: Any = None
) -> Program:
    """Return the program of a model, in the types that runtimes compute in."""
    return in_float32(model if isinstance(model, Program) else load(model, example_inputs, dynamic_shapes))


def _paths(*inputs: object) -> list[StrPath]:
    """Return the inputs that are paths of files."""
    return [path for path in inputs if isinstance(path, str | PathLike)]


def check_target(target: str, options: Iterable[str] = ()) -> None:
    """Raise `BadInputError` for an unknown target, or an option that the target lacks; the message lists the others."""
    if target not in TARGETS:
        raise BadInputError(
            f"unknown target {target!r}: {suggested(str(target), TARGETS)}expected one of {', '.join(sorted(TARGETS))}"
        )
    for option in options:
        if option not in TARGETS[target][1]:
            (owner,) = (name for name, (_, names) in TARGETS.items() if option in names)
            raise BadInputError(f"{option}: got target {target}, expected {owner}; leave the option out")


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
    id_check: IdCheck | None = None,
    allow_empty: bool = False,
    open: bool = True,
    bundle: bool = False,
    force: bool = False,
    progress: Progress = BARS,
) -> ExportReport:
    """Write a model with packed tables to a file of the target format, or to the folder of a bundle.

    Args:
        model: a module, the path of a saved model, or a program (`edge_embed.workflow.load`).
        target: ``"onnx"`` or ``"tflite"``.
        output: the file to write, or the folder of a bundle.
        example_inputs: for a module, as for `save`.
        dynamic_shapes: for a module, as for `save`.
        external_data: onnx: ``auto``, ``always`` or ``never`` store weights in ``<output>.data``.
        memory_megabytes: onnx: session memory in MiB for each use of a table, for speed. By default, lookups of TT use
            none. Output layers of DPQ use as much as their codes in one file, and none with external weights.
        tokenizer: onnx: a ``tokenizer.json`` (Hugging Face) to include; the model then accepts ``text``.
        tokenizer_input: name of the input that receives the ids, if several inputs are integers.
        tflite_table: tflite: lookup of DPQ tables: ``byte``; ``pairs``, which is faster and larger; or by default
            ``auto``, which selects ``pairs`` if the table grows by at most a fifth.
        tflite_sizes: tflite: sizes by name of the dynamic dimension, one signature for each. By default, a model of
            lookups and bags stays dynamic, and other models, converted by litert-torch, have the sizes of the example.
        id_check: result for ids below 0 or at least n. ``error``: an error where the runtime checks indices, else rows
            of NaN. ``nan``: rows of NaN, and bags of NaN. By default nothing is added, and the runtime decides.
        allow_empty: export tables even if all rows are zero.
        open: open the file once, in its own process, before it gets its name: in ONNX Runtime, with and without the
            operator library, or in LiteRT. The golden pair of a bundle is run there too.
        bundle: write a folder with the model, its vocabulary or tokenizer, golden inputs and outputs, a manifest with
            hashes and required versions, licence notices and a model card. `open_bundle` opens it.
        force: overwrite existing files, or replace an existing bundle.
        progress: called with (table, rows done, total rows).

    Returns:
        The report: sizes, tables, and dynamic dimensions.

    Raises:
        BadInputError: the target or one of its options is unknown; the model has no compressed table, has a table whose
            rows are all zero, or cannot be exported; the tokenizer is damaged, does not fit the model, or gives other
            ids than the library `tokenizers`; or the runtime cannot open the file.
        ParityError: the runtime computes other outputs than the golden ones of a bundle.
        OutputError: the file cannot be written; no partial file remains.
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
    checked_ids = None if id_check is None else known_id_check(id_check)
    output = checked_path("output", output)
    if tokenizer is not None:
        tokenizer = checked_path("tokenizer", tokenizer)
    read = [*_paths(model), tokenizer]
    if bundle:
        check_bundle_folder(output, force)
    else:
        check_output([output], read, force)
    program = _runnable(model, example_inputs, dynamic_shapes)
    if not bundle:
        keep_inputs([output, weights_file(output)], [program.source, tokenizer])
    checked = None
    if tokenizer is not None:
        chosen["tokenizer"], checked = fit_tokenizer(Path(tokenizer), program, tokenizer_input)
    elif tokenizer_input is not None:
        raise BadInputError(f"tokenizer_input: got {tokenizer_input!r} without a tokenizer; give the tokenizer too")
    lowered = replace(lower_program(program, progress), id_check=checked_ids)
    zeros = lowered.zero_tables()
    if zeros and not allow_empty:
        remedy = "--allow-empty (allow_empty=True) exports it as it is"
        raise BadInputError("; ".join(f"table {name}: {_OF_ZEROS}" for name in zeros) + f"; {remedy}")
    exporter, _ = TARGETS[target]
    opening = Opening(target, output)

    def write(path: Path) -> ExportReport:
        exported = exporter(lowered, path, **chosen, force=force, on_written=opening if open else keep_unopened)
        return replace(_report(lowered, exported), tokenizer=checked, opened=opening.opened, source=program.facts)

    if not bundle:
        return write(output)
    fused = chosen.get("tokenizer")
    return write_bundle(output, write, program, fused, target=target, run=open, force=force)


def _report(lowered: LoweredProgram, exported: ExportedFile) -> ExportReport:
    return ExportReport(
        {path: path.stat().st_size for path in exported.files},
        exported.tables,
        exported.dynamic,
        exported.frozen,
        signatures=exported.signatures,
        widened=lowered.program.widened,
        id_check=lowered.id_check,
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
    texts: StrPath | None = None,
    original: StrPath | Program | None = None,
) -> ValidationReport:
    """Compare an exported file with its model: rows, outputs, sizes, latency.

    Args:
        model: a module, the path of a saved model, or a program (`edge_embed.workflow.load`). If `compress` wrote
            ``exported`` from an ``.onnx`` or ``.tflite`` file or a GenAI folder: its path.
        exported: the ``.onnx`` or ``.tflite`` file, or the GenAI folder.
        example_inputs: for a module, as for `save`.
        options: all options as one object; each of the following keywords overrides one of them.
        progress: called with (step, done, total).
        atol: absolute tolerance of the outputs, or of each output by name.
        rtol: relative tolerance of the outputs, or of each output by name.
        seed: random seed of ids, inputs and the order of measurements.
        iterations: measured rounds for each latency; 0 measures none.
        warmup: rounds before them.
        more_cases: number of additional inputs of random sizes.
        inputs: file of inputs for the model, which replace random ones.
        save_inputs: file to write the inputs to.
        save_worst: file to write the inputs with the largest output error to.
        force: overwrite existing files.
        targets: targets to run the model on too, such as ``["portable"]``.
        time_limit: seconds that each step may take.
        tokenizer: the ``tokenizer.json`` of the exported file; its ids are compared.
        changed_after_export: report changes that a tool made to the file on purpose, and pass.
        texts: text that a compressed language model and its original predict token by token.
        original: for ``texts`` and an exported ``.onnx`` file: the model before compression, such as the folder of a
            transformers model.

    Returns:
        The report. A sound file whose content differs is a failed report, not an error.

    Raises:
        BadInputError: a file is damaged, or an option is impossible.
        TimeLimitError: a call of ONNX Runtime exceeds ``time_limit``. Only the command line, which runs in its own
            process, also ends the reference evaluator and the creation of a session.
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
    given |= {"targets": targets, "time_limit": time_limit, "tokenizer": tokenizer, "texts": texts}
    if not isinstance(options, ValidationOptions | None):
        expected = "expected edge_embed.ValidationOptions: give the options as keywords"
        raise BadInputError(f"options: got a {type(options).__name__}, {expected}")
    options = (options or ValidationOptions()).given(**given, changed_after_export=changed_after_export)
    model, (exported, folder) = _decoder(model), _exported(checked_path("exported", exported))
    check_runtime_file(exported)
    read = (options.inputs, options.tokenizer, options.texts, *_paths(original))
    for saved in filter(None, (options.save_inputs, options.save_worst)):
        check_output([saved], [*_paths(model), exported, *read], options.force)
    with _lowered(model, exported, folder, example_inputs, progress) as (program, lowered):
        keep_inputs((options.save_inputs, options.save_worst), (program.source, exported, *read))
        dense = _original(original, options.texts, program)
        return validate_file(program, lowered, exported, options, progress, dense)


def _original(original: StrPath | Program | None, texts: Path | None, program: Program) -> Program | None:
    """Return the model before compression, in the form that the compressed program has.

    Raises:
        BadInputError: it is not used, or cannot be read.
    """
    if original is None:
        return None
    named = original.source if isinstance(original, Program) else original
    if texts is None:
        raise BadInputError(f"original: got {named} without texts: give them too, or leave it out")
    if isinstance(program, PairProgram):
        raise BadInputError(f"original: got {named}, but the model is the file before compression: leave it out")
    if isinstance(original, Program):
        return _runnable(original)
    path = Path(checked_path("original", original))
    with located("original"):
        return _runnable(load(path, cache=is_cached(program.example_sizes) or not is_transformers_folder(path)))


def _decoder(model: Model | Program) -> Model | Program:
    """Return the ONNX file in place of a folder of ONNX Runtime GenAI."""
    return decoder_file(Path(model)) if isinstance(model, str | PathLike) else model


def _exported(path: Path) -> tuple[Path, GenaiFolder | None]:
    """Return an exported file, and the folder of ONNX Runtime GenAI if the path is one."""
    folder = read_genai(path) if is_genai(path) else None
    return (path if folder is None else folder.model), folder


@contextmanager
def _lowered(
    model: Model | Program,
    exported: Path,
    folder: GenaiFolder | None,
    example_inputs: ExampleInputs | None,
    progress: Progress,
) -> Iterator[tuple[Program, LoweredProgram]]:
    """Yield the program that an exported file is compared with, and its packed tables."""
    if isinstance(model, str | PathLike) and is_runtime_file(Path(model)):
        if example_inputs is not None:
            raise BadInputError(f"example_inputs: got some for {model}, which declares its inputs: leave them out")
        with open_pair(Path(model), exported, folder) as opened:
            yield opened
        return
    if folder is not None:
        raise BadInputError(
            f"{folder.path}: got a folder of ONNX Runtime GenAI beside a PyTorch model, expected the GenAI folder that "
            "compress made it from: give that one first"
        )
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
    """Check an exported file against a budget, an earlier report and an earlier file, as the gate of a pull request.

    Args:
        model: as for `validate`; by default the model that the budget names.
        exported: the ``.onnx`` or ``.tflite`` file; by default the file that the budget names.
        example_inputs: for a module, as for `save`.
        budget: path of an ``edge-embed.toml`` (`edge_embed.gate.budget`), or a budget that was read. Without one, only
            parity is checked.
        baseline: JSON report of an earlier check, whose sizes may not grow by more than the budget allows; by default
            the baseline that the budget names.
        base: an earlier file of the same kind; latency is measured beside it.
        base_library: onnx: operator library of ``base``; by default that of ``exported``.
        output: path of the report as JSON.
        junit: path of the report as JUnit XML.
        markdown: path of the report as Markdown.
        html: path of the report as one HTML page.
        force: overwrite existing reports.
        progress: called with (step, done, total).
        accept: replace the baseline by this state, unless another check fails.
        load_options: options of the command line that load ``model``, for the command that the report shows.

    Returns:
        The report, which is written in every case. Failures are in it (``passed``, ``exit_code``, ``failures()``).

    Raises:
        BadInputError: a file is missing or damaged, or the budget is invalid or names something unknown.
        OutputError: a report cannot be written.
        TimeLimitError: as for `validate`, with the limit of the budget.
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
    reference, (file, folder) = _decoder(reference), _exported(file)
    base = None if base is None else decoder_file(Path(base))
    for runs in (file, base):
        if runs is not None:
            check_runtime_file(runs)
    earlier = limits.baseline if baseline is None else Path(baseline)
    if accept and earlier is None:
        raise BadInputError("accept: got no baseline to replace: give it, or name it in the budget")
    source = reference.source if isinstance(reference, Program) else reference
    texts, original = (None, None) if limits.texts is None else (limits.texts.file, limits.texts.original)
    read = (source, file, base, base_library, limits.path, limits.tokenizer, texts, original)
    inputs = _paths(*read)
    if accept and earlier is not None:
        check_output([earlier], inputs, force=True)
    places = {"output": output, "junit": junit, "markdown": markdown, "html": html}
    with (
        limit_steps(limits.targets.time_limit),
        reports_at(places, CHECK, keep=inputs, replaced=earlier, force=force) as write,
    ):
        with _lowered(reference, file, folder, example_inputs, progress) as (program, lowered):
            with limits.named():
                dense = _original(original, texts, program)
            report = run_check(
                program,
                lowered,
                file,
                limits,
                original=dense,
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
