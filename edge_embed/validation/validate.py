"""Validation of an exported file against the program it was made from, stage by stage.

    structure -> stored rows -> the same ids on every path -> the whole model on every path -> sizes -> latency
    -> the whole model on every requested target

In a file with a tokenizer, the model behind the tokenizer passes these stages; the tokenizer is validated separately
(tokenizer_model.py).

Memory: the program and its packed tables; the weights inside the ``.onnx`` file once, and again for each session.
At most two whole models or four single tables are open at a time. External data is compared a block at a time and
mapped when it runs. The reference evaluator holds all weights.
Disk: a copy of one table, or of the model's weights, in a temporary folder.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from edge_embed.errors import OutputError
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.program.program import Program
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    LoadedSize,
    ModelResult,
    PathResult,
    SizeResult,
    TableResult,
    TargetResult,
    ValidationReport,
)
from edge_embed.steps import limit_steps
from edge_embed.targets.catalog import make_targets
from edge_embed.targets.target import RunOptions, Subject, Target
from edge_embed.validation import latency, model_inputs, model_paths, optimized_session, paths, sizes, table_paths
from edge_embed.validation.as_exported import compare_with_export
from edge_embed.validation.cases import choose_cases, save_worst
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.float16_outputs import half_scales
from edge_embed.validation.options import Tolerance, ValidationOptions
from edge_embed.validation.submodel import Submodel, copy_tensors, cut_out
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.tables import Node, Table, stored_checks
from edge_embed.validation.tokenizer_model import (
    TokenizerResults,
    behind_tokenizer,
    compare_tokenizer,
    from_texts_on_target,
)

__all__ = ["Tolerance", "ValidationOptions", "ValidationReport", "validate_export"]

_PATHS_OF_A_TABLE = 5
_PATHS_OF_A_MODEL = 4
_SIZE_STEPS = 2


def validate_export(
    program: Program,
    lowered: LoweredProgram,
    onnx_path: Path,
    options: ValidationOptions,
    progress: Progress = lambda step, done, total: None,
) -> ValidationReport:
    """Compare an exported file with the program it was made from.

    Args:
        program: the training form (trainable or frozen), the reference for all comparisons.
        lowered: the same program over packed tables.
        onnx_path: the exported ``.onnx`` file, external data beside it.
        options: tolerances, seed and iterations.
        progress: called with (step, done, total).

    Returns:
        The report. Different content is a failure in the report (exit code 3) and raises no error.

    Raises:
        BadInputError: the file is damaged; a tolerance names an unknown output; the program does not run on
            its own example inputs; the operator library has another version.
        OutputError: the temporary folder is full or cannot be written.
        TimeLimitError: a call of ONNX Runtime took longer than the options allow.
    """
    options.check_outputs(program.output_names)
    half = any(map(_is_half, lowered.program.module.buffers()))
    chosen = options.for_weights(half, half_scales(program))
    with temporary_space(), limit_steps(options.time_limit), tempfile.TemporaryDirectory() as folder:
        return Validation(program, lowered, onnx_path, chosen, progress, Path(folder)).run()


@contextmanager
def temporary_space() -> Iterator[None]:
    """Convert errors of a full folder to one that names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise OutputError(
            f"{place}: {error.strerror or error}: validation copies one table at a time to the temporary folder "
            f"({tempfile.gettempdir()}); set TMPDIR to a folder with more space"
        ) from error


class Steps:
    """Counts the steps of one stage for the progress bar."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self._progress, self._name, self._total, self._done = progress, name, total, 0

    def __call__(self) -> None:
        self._done += 1
        self._progress(self._name, self._done, self._total)


class Validation:
    """One validation of a file, from its structure to its latency."""

    def __init__(
        self,
        program: Program,
        lowered: LoweredProgram,
        path: Path,
        options: ValidationOptions,
        progress: Progress,
        folder: Path,
    ) -> None:
        self._program, self._options, self._progress = program, options, progress
        paths.missing_library()  # a library of another version is refused before any other work
        self._targets = make_targets(options.targets)
        checked = Steps(progress, "structure", 1)
        self._shipped = self._open(path)
        self._exported = behind_tokenizer(self._shipped, folder)
        checked()
        self._lowered = replace(lowered, id_check=self._exported.id_check)
        self._tables = {name: Table(name, packed) for name, packed in lowered.tables.items()}
        # Two streams, so that the number of iterations does not change the compared inputs.
        streams = np.random.SeedSequence(options.seed).spawn(2)
        self._random, self._timing_random = (np.random.default_rng(stream) for stream in streams)
        self._latencies: list[LatencyResult] = []

    def run(self) -> ValidationReport:
        """Run all stages in order."""
        cases, left_out = self._cases()
        structure = self._structure()
        calls = table_paths.table_calls(self._program, self._lowered, self._tables)
        tables = tuple(self._table(self._tables[name], found) for name, found in calls.items())
        after_loading = optimized_session.optimize_all(self._exported)
        tokenizer = compare_tokenizer(self._program, self._shipped, self._options)
        model = self._model(cases, left_out, after_loading, tokenizer.paths)
        sizes = self._sizes(cases[0], optimized_session.loaded_sizes(after_loading))
        self._model_latency(cases[0], model)
        targets = tuple(found for target in self._targets for found in self._on_target(target, cases, tokenizer))
        save_worst(self._program, cases, (*model.paths, *targets), self._options)
        return ValidationReport(
            str(self._shipped.path),
            self._options.seed,
            (*structure, *tokenizer.checks),
            tables,
            model,
            sizes,
            latency.section(self._latencies),
            targets,
        )

    def _open(self, path: Path) -> ExportedModel:
        return ExportedModel(path)

    def _cases(self) -> tuple[list[model_inputs.ModelCase], list[str]]:
        return choose_cases(self._program, self._random, self._options)

    def _structure(self) -> tuple[Check, ...]:
        files = f"{len(self._shipped.files)} file(s), {self._exported.initializer_bytes():,} bytes of weights"
        sound: tuple[Check, ...] = (Check("structure", "passed", f"{files}; the ONNX checker accepts it"),)
        known = list(self._tables.values())
        used = {node.name for table in known for node in self._exported.nodes_of(table.tensors)}
        others = [node for node in self._exported.nodes if node.op_type not in ACTIVATIONS]
        unknown = [node.name or node.op_type for node in others if node.name not in used]
        if unknown:
            detail = f"node(s) {', '.join(unknown)} use unknown tables: give the model of this file"
            sound = (*sound, Check("no other table", "failed", detail))
        return (*sound, *compare_with_export(self._lowered, self._exported, self._options.changed_after_export))

    def _table(self, table: Table, calls: list[TableCall]) -> TableResult:
        total = table.packed.nbytes
        nodes = [Node(call.op_type, call.attributes) for call in calls]
        on_bytes = partial(self._progress, f"rows of {table.name}")
        checks = stored_checks(table, nodes, self._exported, lambda done: on_bytes(done, total))
        uses = {call.name: call for call in calls}  # one test for all calls of the same kind
        steps = Steps(self._progress, f"paths of {table.name}", _PATHS_OF_A_TABLE * len(uses))
        found: list[Check] = []
        with tempfile.TemporaryDirectory() as folder:
            tensors = self._tensors(table, Path(folder))
            for call in uses.values():
                submodel = cut_out(call, self._exported, tensors, Path(folder)) if tensors else None
                passed = table_paths.compare_paths(call, self._program, submodel, self._random, steps)
                self._table_latency(call, submodel, passed)
                found += [replace(check, name=_path_name(check.name, call)) for check in passed]
        return TableResult(
            name=table.name,
            method=table.packed.method,
            num_embeddings=table.packed.num_embeddings,
            embedding_dim=table.packed.embedding_dim,
            dense_bytes=sizes.dense_bytes(table),
            packed_bytes=total,
            compression_ratio=table.packed.compression_ratio,
            checks=checks,
            paths=tuple(found),
            settings=table.settings,
        )

    def _tensors(self, table: Table, folder: Path) -> list[TensorProto]:
        """Return the stored tensors as files, or none if one is missing or has another type, as in another model."""
        stored = [self._exported.spec(name) for name in table.tensors]
        wanted = table.packed.tensors().values()
        sound = all(found and found.dtype == array.dtype.name for found, array in zip(stored, wanted, strict=True))
        return copy_tensors(table, self._exported, folder) if sound else []

    def _table_latency(self, call: TableCall, submodel: Submodel | None, found: tuple[Check, ...]) -> None:
        if submodel is None or any(check.status == "failed" for check in found):
            return  # latency of a wrong result is meaningless
        steps = Steps(self._progress, f"latency of {call.table.name}", 1)
        self._latencies += latency.measure_table(call, submodel, self._options, self._timing_random)
        steps()

    def _model(
        self,
        cases: list[model_inputs.ModelCase],
        left_out: list[str],
        after_loading: list[optimized_session.Optimized],
        from_texts: tuple[PathResult, ...],
    ) -> ModelResult:
        steps = Steps(self._progress, "whole model", _PATHS_OF_A_MODEL)
        found = model_paths.compare_model(self._lowered, self._exported, cases, self._options, steps)
        kernel = optimized_session.kernel_check(self._exported, after_loading)
        return ModelResult(tuple(case.name for case in cases), tuple(left_out), (*found, *from_texts), kernel)

    def _on_target(
        self, target: Target, cases: list[model_inputs.ModelCase], tokenizer: TokenizerResults
    ) -> Iterator[TargetResult]:
        """Run the model behind a tokenizer, then the whole file if it is another one."""
        steps = Steps(self._progress, target.name, 1)
        run_options = RunOptions(iterations=self._options.iterations, time_limit=self._options.time_limit)
        subject = Subject(self._exported.path, self._program, self._exported.files[1:])
        feeds = [case.feeds(self._program) for case in cases]
        yield model_paths.compare_target(target, subject, cases, feeds, self._options, run_options)
        if self._exported is not self._shipped and target.tokenizer != "is not used":
            whole = Subject(self._shipped.path, self._program, self._shipped.files[1:], from_texts=True)
            yield from_texts_on_target(target, whole, tokenizer.feeds, self._options, run_options)
        steps()

    def _sizes(self, case: model_inputs.ModelCase, loaded: tuple[LoadedSize, ...]) -> SizeResult:
        steps = Steps(self._progress, "sizes", _SIZE_STEPS)
        tables, feeds = list(self._tables.values()), case.feeds(self._program)
        return sizes.measure_sizes(self._exported, self._shipped.files, tables, feeds, loaded, steps)

    def _model_latency(self, case: model_inputs.ModelCase, model: ModelResult) -> None:
        if any(path.status == "failed" for path in model.paths):
            return
        steps = Steps(self._progress, "latency of the model", 1)
        self._latencies += self._measured_model(case)
        steps()

    def _measured_model(self, case: model_inputs.ModelCase) -> list[LatencyResult]:
        return latency.measure_model(self._program, self._exported, case, self._options, self._timing_random)


def _path_name(path: str, call: TableCall) -> str:
    """Return the name of a path, with the use of the table unless that is a plain lookup."""
    return path if call.use == "rows" else f"{path}, {call.name}"


def _is_half(weight: Tensor) -> bool:
    return weight.dtype == torch.float16
