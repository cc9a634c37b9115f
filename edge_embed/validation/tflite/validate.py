"""Validation of a TFLite file against the program it was made from, on LiteRT and on tflite-runtime.

    structure -> stored rows -> the same ids on every path -> the whole model on every path -> sizes -> latency
    -> the whole model on every requested target

The paths are both runtimes, each with the operators of the file and with the delegate.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.portable import not_portable
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.program.program import Program, Sizes
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    LatencySection,
    ModelResult,
    PathResult,
    TableResult,
    TargetResult,
    ValidationReport,
)
from edge_embed.steps import limit_steps
from edge_embed.targets.catalog import make_targets
from edge_embed.targets.target import NotRunError, RunOptions, Subject, Target
from edge_embed.targets.tflite.runtimes import TARGETS, WAYS
from edge_embed.validation.cases import choose_cases, save_worst
from edge_embed.validation.float16_outputs import half_scales
from edge_embed.validation.machine import machine
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.model_paths import compare_lowered, compare_target
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.sizes import dense_bytes
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.table_paths import table_calls
from edge_embed.validation.tables import Table
from edge_embed.validation.tflite import latency
from edge_embed.validation.tflite.as_exported import compare_with_export
from edge_embed.validation.tflite.signatures import fixed_sizes, narrowed
from edge_embed.validation.tflite.sizes import measure_sizes
from edge_embed.validation.tflite.stored_tables import StoredFile, read_stored
from edge_embed.validation.tflite.tables import compare_uses


def validate_tflite(
    program: Program,
    lowered: LoweredProgram,
    path: Path,
    options: ValidationOptions,
    progress: Progress = lambda step, done, total: None,
) -> ValidationReport:
    """Compare a ``.tflite`` file with its program; arguments and errors are those of `validate_export`.

    A runtime that is not installed is reported as not run.
    """
    options.check_outputs(program.output_names)
    if options.tokenizer is not None:
        raise BadInputError("tokenizer: got one, but a TFLite file has none: remove the option")
    half = any(weight.dtype == torch.float16 for weight in lowered.program.module.buffers())
    chosen = options.for_weights(half, half_scales(program))
    with limit_steps(options.time_limit):
        return Validation(program, lowered, path, chosen, progress).run()


class Validation:
    """One validation of a file."""

    def __init__(
        self, program: Program, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
    ) -> None:
        self._program, self._lowered, self._path, self._options = program, lowered, path, options
        self._targets, self._progress = make_targets(options.targets, "tflite"), progress
        self._stored = self._read()
        self._lowered = replace(lowered, id_check=self._stored.id_check)
        self._tables = {name: Table(name, packed) for name, packed in lowered.tables.items()}
        streams = np.random.SeedSequence(options.seed).spawn(2)
        self._random, self._timing_random = (np.random.default_rng(stream) for stream in streams)

    def run(self) -> ValidationReport:
        """Run all stages in order."""
        fixed = self._fixed_sizes()
        cases, left_out = choose_cases(self._program, self._random, self._options, fixed)
        for target in TARGETS:
            if target in self._targets:
                with suppress(NotRunError):  # the target itself reports it
                    target.installed(self._options.time_limit)
        calls = table_calls(self._program, self._lowered, self._tables)
        tables = tuple(self._table(self._tables[name], found) for name, found in calls.items())
        model = self._whole(cases, left_out)
        sizes = measure_sizes(self._path, self._stored.model, self._tables.values())
        # Latency of a wrong result is meaningless.
        sound = [
            table.name for table in tables if all(check.status != "failed" for check in table.checks + table.paths)
        ]
        measured = [result for name in sound for result in self._latency(name, calls[name])]
        measured += self._model_latency(cases[0], model)
        targets = tuple(self._on(target, cases) for target in self._targets)
        save_worst(self._program, cases, (*model.paths, *targets), self._options)
        return ValidationReport(
            str(self._path),
            self._options.seed,
            self._structure(),
            tables,
            model,
            sizes,
            LatencySection(machine(threads=1) | {"runtime": latency.runtime()}, latency.METHOD, tuple(measured)),
            targets,
        )

    def _read(self) -> StoredFile:
        return read_stored(self._path, self._lowered)

    def _fixed_sizes(self) -> list[Sizes]:
        return fixed_sizes(self._program, self._stored.model)

    def _model_latency(self, case: ModelCase, model: ModelResult) -> list[LatencyResult]:
        """Return no result: tables are timed alone, because the rest of a model has no counterpart to compare with."""
        return []

    def _structure(self) -> tuple[Check, ...]:
        structure = Check("structure", "passed", f"{sum(self._stored.model.operators.values())} operators")
        got = tuple(port.name for port in self._stored.model.outputs)
        if got != self._program.output_names:
            detail = f"got outputs {', '.join(got)}; expected {', '.join(self._program.output_names)}: export again"
            structure = Check("structure", "failed", detail)
        fixed = fixed_sizes(self._program, self._stored.model)
        as_exported = compare_with_export(
            self._lowered, self._path, self._stored.layouts, fixed, self._options.changed_after_export
        )
        return (structure, *self._stored.delegate_checks(), *as_exported)

    def _table(self, table: Table, calls: list[TableCall]) -> TableResult:
        uses, layout = {call.name: call for call in calls}, self._stored.layouts.get(table.name)
        on_path, checks = partial(self._progress, f"paths of {table.name}"), list[Check]()
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            on_path(done, (2 + len(WAYS)) * len(uses))

        for call in () if layout is None else uses.values():
            assert layout is not None
            options, id_check = self._run_options(iterations=0), self._stored.id_check
            found = compare_uses(call, self._program, layout.name, self._random, options, step, id_check)
            checks += [check if call.use == "rows" else replace(check, name=f"{check.name}, {call.name}")
                       for check in found]  # fmt: skip
        return TableResult(
            name=table.name,
            method=table.packed.method,
            num_embeddings=table.packed.num_embeddings,
            embedding_dim=table.packed.embedding_dim,
            dense_bytes=dense_bytes(table),
            packed_bytes=table.packed.nbytes,
            compression_ratio=table.packed.compression_ratio,
            checks=self._stored.checks(table.name),
            paths=tuple(checks),
            settings=table.settings | ({"layout": layout.name} if layout else {}),
        )

    def _whole(self, cases: list[ModelCase], left_out: list[str]) -> ModelResult:
        found = [*compare_lowered(self._lowered, cases, self._options), *self._on_ways(cases)]
        operators = Check("operators", "passed", "both runtimes support every operator")
        if found_new := ", ".join(not_portable(self._stored.model.operators)):
            operators = Check("operators", "failed", f"tflite-runtime does not support {found_new}: export again")
        return ModelResult(tuple(case.name for case in cases), tuple(left_out), tuple(found), operators)

    def _on_ways(self, cases: list[ModelCase]) -> Iterator[PathResult]:
        for way in WAYS:
            if reason := way.reason_against():
                yield PathResult(way.name, "not run", reason, ())
                continue
            ran = self._on(way, cases)
            yield PathResult(ran.name, ran.status, ran.detail, ran.outputs)

    def _on(self, target: Target, cases: list[ModelCase]) -> TargetResult:
        subject = Subject(self._path, self._program)
        run_options = self._run_options(self._options.iterations)
        feeds = [case.feeds(self._program) for case in cases]
        expected = [narrowed(case, self._program, self._stored.model.outputs) for case in cases]
        ran = compare_target(target, subject, expected, feeds, self._options, run_options)
        self._progress(target.name, 1, 1)
        return ran

    def _latency(self, table: str, calls: list[TableCall]) -> list[LatencyResult]:
        rows = next((call for call in calls if call.use == "rows"), None)
        if rows is None:
            return [latency.not_run(table, "only lookups of rows are timed")]
        layout, id_check = self._stored.layouts[table].name, self._stored.id_check
        found = list(latency.measure_rows(rows, layout, self._options, self._timing_random, id_check))
        self._progress(f"latency of {table}", 1, 1)
        return found

    def _run_options(self, iterations: int) -> RunOptions:
        return RunOptions(iterations=iterations, time_limit=self._options.time_limit)
