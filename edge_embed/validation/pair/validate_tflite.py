"""Validation of a compressed TFLite file against its original, with the stages of `edge_embed.validation.tflite`.

The comparisons are those for ONNX (validate.py). The runtimes are LiteRT and tflite-runtime, each with the delegate and
without it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.portable import not_portable
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.packed.manifest import parse_manifest
from edge_embed.program.program import Sizes
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    ModelResult,
    OriginalSize,
    PathResult,
    TableResult,
    TargetResult,
    ValidationReport,
)
from edge_embed.steps import limit_steps
from edge_embed.targets.target import RunFailedError, Subject, Target
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.targets.tflite.runtimes import LITERT, WAYS
from edge_embed.validation.latency import ORIGINAL, latency_result, model_drawer, refused
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.model_paths import training_form
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.nearness import checked_table
from edge_embed.validation.pair.output_changes import changes_of_model
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.pair.tflite_pair import TflitePair
from edge_embed.validation.pair.validate import RECONSTRUCTED, with_negative_ids
from edge_embed.validation.sizes import deflated_bytes
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.tables import Table
from edge_embed.validation.tflite.litert_model import BoundModel
from edge_embed.validation.tflite.stored_tables import StoredFile, read_tables
from edge_embed.validation.tflite.validate import Validation
from edge_embed.validation.timing import time_rounds

_FILE, _DELEGATE = "model", "model, delegate"
_BUILT_IN = "output of compress for the original, with built-in operators"


def validate_tflite_pair(
    program: PairProgram, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
) -> ValidationReport:
    """Compare a compressed file with its original; arguments and errors are those of `validate_export`."""
    options.check_outputs(program.output_names)
    if options.tokenizer is not None:
        raise BadInputError("tokenizer: got one, but a TFLite file has none: remove the option")
    half = any(packed.value_type == "float16" for packed in lowered.tables.values())
    with limit_steps(options.time_limit):
        return _PairValidation(program, lowered, path, options.for_weights(half=half), progress).run()


class _PairValidation(Validation):
    """One validation of a pair."""

    @property
    def _pair(self) -> TflitePair:
        pair: TflitePair = self._program.pair  # type: ignore[attr-defined]
        return pair

    def run(self) -> ValidationReport:
        """Run all stages in order."""
        report, path = super().run(), self._pair.original
        size = path.stat().st_size
        original = OriginalSize({path.name: size}, size, deflated_bytes(path), None)
        return replace(report, sizes=replace(report.sizes, original=original), original=str(path))

    def _read(self) -> StoredFile:
        return read_tables(self._path, self._lowered)

    def _fixed_sizes(self) -> list[Sizes]:
        return self._pair.fixed

    def _structure(self) -> tuple[Check, ...]:
        return self._pair.structure

    def _table(self, table: Table, calls: list[TableCall]) -> TableResult:
        result, pair = super()._table(table, calls), self._pair
        manifest = parse_manifest(self._stored.model.metadata[MANIFEST_KEY], self._path.stat().st_size)
        promise = pair.promises.get(table.name)
        return checked_table(result, manifest, pair.tables[table.name], pair.dense[table.name], promise)

    def _whole(self, cases: list[ModelCase], left_out: list[str]) -> ModelResult:
        cases += with_negative_ids(self._program, cases, self._options)  # type: ignore[arg-type]
        reconstructed = replace(training_form(self._lowered, cases, self._options), name=self._reference)
        operators = Check("operators", "passed", "compress added no operator that a runtime lacks")
        new = {name: 1 for name in self._stored.model.operators if name not in self._pair.operators}
        if lacking := ", ".join(not_portable(new)):
            operators = Check("operators", "failed", f"tflite-runtime does not support {lacking}: compress it again")
        found: list[PathResult] = [reconstructed, *self._on_ways(cases)]
        rows = [table.packed.num_embeddings for table in self._tables.values()]
        changes = changes_of_model(self._program, cases, rows)  # type: ignore[arg-type]
        return ModelResult(tuple(case.name for case in cases), tuple(left_out), tuple(found), operators, changes)

    def _on(self, target: Target, cases: list[ModelCase]) -> TargetResult:
        """Run a target; the file does not fail if the target does not run the original either."""
        ran = super()._on(target, cases)
        if ran.status == "failed" and not ran.outputs:
            original = Subject(self._pair.original, self._program)
            try:
                with self._without_delegate(target).prepare(original, self._run_options(0)) as prepared:
                    prepared.run([cases[0].feeds(self._program)], self._run_options(0))
            except RunFailedError as error:
                return replace(ran, status="not run", detail=f"it fails on the original too: {error}")
        return ran

    def _without_delegate(self, target: Target) -> Target:
        return next((way for way in WAYS if target.name.startswith(way.name)), target)

    @property
    def _reference(self) -> str:
        return RECONSTRUCTED if self._pair.substituted else _BUILT_IN

    def _model_latency(self, case: ModelCase, model: ModelResult) -> list[LatencyResult]:
        """Measure the file with built-in operators and with the delegate, relative to the original, in LiteRT."""
        if any(path.status == "failed" for path in model.paths):
            return []
        return list(self._timed(case))

    def _timed(self, case: ModelCase) -> Iterator[LatencyResult]:
        where = f"uniform, {case.name}"
        reason = "no iterations were requested" if self._options.iterations == 0 else ""
        if lacks := LITERT.lacks():
            reason = lacks[0].what
        if self._pair.fixed:
            reason = "the latency of a file with several signatures is not measured as a whole"
        if reason:
            yield LatencyResult(_FILE, None, where, ORIGINAL, None, None, None, None, reason)
            return
        feeds, draw = case.feeds(self._program), model_drawer(self._program, case, self._timing_random)
        files = {_FILE: (self._path, False), ORIGINAL: (self._pair.original, False)}
        if not LITERT.with_delegate().lacks():
            files[_DELEGATE] = self._path, True
        bound = {name: BoundModel(LiteRtModel(path, delegate), feeds) for name, (path, delegate) in files.items()}
        options = self._options
        try:
            times = time_rounds(bound, lambda: [draw()], options.iterations, options.warmup, self._timing_random)
        except (RuntimeError, ValueError) as error:
            yield LatencyResult(_FILE, None, where, ORIGINAL, None, None, None, None, refused(error))
            return
        for name in files:
            if name != ORIGINAL:
                yield latency_result(name, None, where, ORIGINAL, (times[name], times[ORIGINAL]), self._timing_random)
