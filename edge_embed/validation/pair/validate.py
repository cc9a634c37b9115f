"""Validation of a compressed ONNX file against its original, with the stages of `edge_embed.validation.validate`.

- structure: everything except the tables, compared with the output of `compress` for the original.
- stored rows: compared with the dense ones, and with the fidelity that `compress` reported.
- paths: the compressed file on the portable body and with the operator library, compared with the original with the
  stored rows; and the compressed graph with dense rows, compared with the original itself. Products that round states
  to 8 bits compute in float32 here (`edge_embed.validation.pair.float_states`).
- changes: the compressed model compared with the original; informational.
- texts: next tokens of texts, predicted by both files as they are; informational.
"""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    LoadedSize,
    ModelResult,
    OriginalSize,
    PathResult,
    SizeResult,
    TableResult,
    ValidationReport,
)
from edge_embed.steps import limit_steps
from edge_embed.validation import latency, model_paths, optimized_session, paths, sizes
from edge_embed.validation.decoder import Decoder
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.model_inputs import ModelCase, id_bounds, run_case
from edge_embed.validation.next_tokens import NextTokens, found_tokenizer
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.pair.nearness import checked_table
from edge_embed.validation.pair.onnx_pair import OnnxPair, session_run
from edge_embed.validation.pair.output_changes import changes_of_model
from edge_embed.validation.pair.program import PairProgram
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.tables import Table
from edge_embed.validation.validate import Steps, Validation, temporary_space

RECONSTRUCTED = "original with the stored rows"
DENSE = "compressed graph with the original's rows, against the original"
NEGATIVE = "negative ids, which count from the end"


def validate_onnx_pair(
    program: PairProgram, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
) -> ValidationReport:
    """Compare a compressed file with its original; arguments and errors are those of `validate_export`."""
    options.check_outputs(program.output_names)
    if options.tokenizer is not None and options.texts is None:
        raise BadInputError(
            "tokenizer: got one, but a file that was compressed in place has none: remove the option, or give texts"
        )
    chosen = options.for_weights(half=program.pair.half)
    with temporary_space(), limit_steps(options.time_limit), tempfile.TemporaryDirectory() as folder:
        return _PairValidation(program, lowered, path, chosen, progress, Path(folder)).run()


class _PairValidation(Validation):
    """One validation of a pair."""

    @property
    def _pair(self) -> OnnxPair:
        pair: OnnxPair = self._program.pair  # type: ignore[attr-defined]
        return pair

    def run(self) -> ValidationReport:
        """Run all stages in order; texts first, because they may be unfit."""
        texts = None if self._options.texts is None else self._next_tokens(self._options.texts)
        self._options = replace(self._options, tokenizer=None)  # of texts; the file itself has none
        report = super().run()
        model = replace(report.model, texts=texts)
        return replace(report, original=str(self._pair.original), model=model)

    def _next_tokens(self, texts: Path) -> TextPredictions:
        tokenizer = found_tokenizer(self._options.tokenizer, self._shipped.path.parent)
        original, compressed = (
            Decoder(self._program, session_run(path, self._program.output_names))
            for path in (self._pair.original, self._shipped.path)
        )
        return NextTokens(original, texts, tokenizer).compare(compressed, self._progress)

    def _open(self, path: Path) -> ExportedModel:
        return ExportedModel(path, self._pair.original)

    def _structure(self) -> tuple[Check, ...]:
        files = f"{len(self._shipped.files)} file(s), {self._exported.initializer_bytes():,} bytes of weights"
        refusal = self._shipped.refusal
        checker = f"refuses it, as it refuses the original: {refusal}" if refusal else "accepts it"
        return (Check("structure", "passed", f"{files}; the ONNX checker {checker}"), *self._pair.structure)

    def _cases(self) -> tuple[list[ModelCase], list[str]]:
        cases, left_out = super()._cases()
        return cases + with_negative_ids(self._program, cases, self._options), left_out  # type: ignore[arg-type]

    def _table(self, table: Table, calls: list[TableCall]) -> TableResult:
        result, rewritten = super()._table(table, calls), self._pair.rewritten
        assert self._exported.manifest is not None
        promise = self._pair.promises.get(table.name)
        stored, dense = rewritten.tables[table.name], rewritten.dense[table.name]
        return checked_table(result, self._exported.manifest, stored, dense, promise)

    def _model(
        self,
        cases: list[ModelCase],
        left_out: list[str],
        after_loading: list[optimized_session.Optimized],
        from_texts: tuple[PathResult, ...],
    ) -> ModelResult:
        steps = Steps(self._progress, "whole model", 3)
        names, run, run_original = self._program.output_names, self._pair.run_dense, self._pair.run_original
        original = [replace(case, outputs=tuple(run_original(case.feeds(self._program)))) for case in cases]
        reconstructed = replace(model_paths.training_form(self._lowered, cases, self._options), name=RECONSTRUCTED)
        dense = model_paths.run_path(
            DENSE, lambda: lambda case: run(case.feeds(self._program)), names, original, self._options
        )
        steps()
        exact = cases
        if self._pair.exact != self._exported.path:  # states are rounded, which amplifies the last bits of rows
            run_exact = self._pair.run_exact
            exact = [replace(case, outputs=tuple(run_exact(case.feeds(self._program)))) for case in cases]
        found = model_paths.compare_sessions(self._lowered, self._pair.exact, exact, self._options, steps)
        rows = [table.packed.num_embeddings for table in self._tables.values()]
        return ModelResult(
            tuple(case.name for case in cases),
            tuple(left_out),
            (reconstructed, dense, *found),
            optimized_session.kernel_check(self._exported, after_loading),
            changes_of_model(self._program, cases, rows),  # type: ignore[arg-type]
        )

    def _sizes(self, case: ModelCase, loaded: tuple[LoadedSize, ...]) -> SizeResult:
        files = {path.name: path.stat().st_size for path in self._pair.original_files}
        zipped = sum(map(sizes.deflated_bytes, self._pair.original_files))
        resident = sizes.session_growth(self._pair.original, case.feeds(self._program), paths.CUSTOM).resident
        original = OriginalSize(files, sum(files.values()), zipped, resident)
        return replace(super()._sizes(case, loaded), original=original)

    def _measured_model(self, case: ModelCase) -> list[LatencyResult]:
        return latency.measure_model(
            self._program, self._exported, case, self._options, self._timing_random, self._pair.original
        )

    @property
    def _dense(self) -> PairProgram:
        original: PairProgram = self._program.original  # type: ignore[attr-defined]
        return original


def with_negative_ids(program: PairProgram, cases: Sequence[ModelCase], options: ValidationOptions) -> list[ModelCase]:
    """Return one more case with negative ids, if the original accepts them and the user gave no inputs."""
    bounds, (first, *_) = id_bounds(program), cases
    if options.inputs is None and bounds:
        with suppress(Exception):  # any exception of the runtime
            inputs = tuple(
                value - bounds[declared.name] if declared.name in bounds else value
                for declared, value in zip(program.inputs, first.inputs, strict=True)
            )
            program.original.run(*inputs)
            return [run_case(program, NEGATIVE, inputs)]
    return []
