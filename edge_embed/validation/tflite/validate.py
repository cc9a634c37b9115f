"""Validation of a TFLite file against the program it was made from, on LiteRT and on tflite-runtime.

structure -> stored rows -> the same ids on both runtimes -> the whole model on both -> sizes -> latency
-> the whole model on every target that is asked for
"""

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.dpq import TfliteTable
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.portable import not_portable
from edge_embed.exporters.tflite.uses import METHODS, Layout, hashes
from edge_embed.inspection.tflite_file import TfliteModel, read_tflite
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.packed.manifest import write_manifest
from edge_embed.program.program import Program
from edge_embed.report.results import (
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
from edge_embed.targets.tflite.runtimes import TARGETS
from edge_embed.validation.call import TableCall
from edge_embed.validation.cases import choose_cases, save_worst
from edge_embed.validation.machine import machine
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.model_paths import compare_lowered, compare_target
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.size import dense_bytes
from edge_embed.validation.table_paths import table_calls
from edge_embed.validation.tables import Table
from edge_embed.validation.tflite import latency
from edge_embed.validation.tflite.signatures import fixed_sizes, narrowed
from edge_embed.validation.tflite.sizes import measure_sizes
from edge_embed.validation.tflite.tables import compare_uses, stored_rows


def validate_tflite(
    program: Program,
    lowered: LoweredProgram,
    path: Path,
    options: ValidationOptions,
    progress: Progress = lambda step, done, total: None,
) -> ValidationReport:
    """Compare a ``.tflite`` file with the program it was made from; arguments and errors as of `validate_export`.

    A runtime that is not installed is reported as not run.
    """
    options.check_outputs(program.output_names)
    if options.tokenizer is not None:
        raise BadInputError("tokenizer: got one for a TFLite file, which has none: leave it out")
    half = any(weight.dtype == torch.float16 for weight in lowered.program.module.buffers())
    with limit_steps(options.time_limit):
        return _Validation(program, lowered, path, options.for_weights(half=half), progress).run()


class _Validation:
    """One pass over a file."""

    def __init__(
        self, program: Program, lowered: LoweredProgram, path: Path, options: ValidationOptions, progress: Progress
    ) -> None:
        self._program, self._lowered, self._path, self._options = program, lowered, path, options
        self._targets, self._progress = make_targets(options.targets, "tflite"), progress
        self._model = read_tflite(path)
        self._tables = {name: Table(name, packed) for name, packed in lowered.tables.items()}
        streams = np.random.SeedSequence(options.seed).spawn(2)
        self._random, self._timing_random = (np.random.default_rng(stream) for stream in streams)
        self._layouts = _layouts(lowered, self._model)
        self._hashes: dict[str, str] = {}
        for name, layout in self._layouts.items():
            self._hashes |= hashes(name, lowered.tables[name], layout.name)

    def run(self) -> ValidationReport:
        """All stages in order."""
        fixed = fixed_sizes(self._program, self._model)
        cases, left_out = choose_cases(self._program, self._random, self._options, fixed)
        for target in TARGETS:
            if target in self._targets:
                with suppress(NotRunError):  # the target itself will say so
                    target.installed(self._options.time_limit)
        calls = table_calls(self._program, self._lowered, self._tables)
        tables = tuple(self._table(self._tables[name], found) for name, found in calls.items())
        model = self._whole(cases, left_out)
        sizes = measure_sizes(self._path, self._model, self._tables.values())
        measured = [result for found in calls.values() for result in self._latency(found)]
        targets = tuple(self._on(target, cases) for target in self._targets)
        save_worst(self._program, cases, (*model.paths, *targets), self._options)
        return ValidationReport(
            str(self._path),
            self._options.seed,
            (Check("structure", "passed", f"{sum(self._model.operators.values())} operators"),),
            tables,
            model,
            sizes,
            LatencySection(machine(threads=1) | {"runtime": latency.runtime()}, latency.METHOD, tuple(measured)),
            targets,
        )

    def _table(self, table: Table, calls: list[TableCall]) -> TableResult:
        uses = {call.name: call for call in calls}
        on_path, checks = partial(self._progress, f"paths of {table.name}"), list[Check]()
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            on_path(done, (2 + len(TARGETS)) * len(uses))

        for call in uses.values() if table.name in self._layouts else ():
            layout = self._layouts[table.name].name
            found = compare_uses(call, self._program, layout, self._random, self._run_options(iterations=0), step)
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
            checks=self._stored(table),
            paths=tuple(checks),
        )

    def _stored(self, table: Table) -> tuple[Check, ...]:
        if table.name not in self._layouts:
            detail = "the file does not say how the table lies in it, or not as one of this model: export again"
            return (Check("layout", "failed", detail),)
        layout = Check("layout", "passed", self._layouts[table.name].name)
        rows = stored_rows(table.name, self._hashes, self._model)
        return layout, rows, self._manifest()

    def _manifest(self) -> Check:
        if self._model.metadata.get(MANIFEST_KEY) == write_manifest(self._lowered.tables):
            return Check("manifest", "passed", "sizes and SHA-256 as in the model")
        return Check("manifest", "failed", "none, or that of another model: export again")

    def _whole(self, cases: list[ModelCase], left_out: list[str]) -> ModelResult:
        found = compare_lowered(self._lowered, cases, self._options)
        for target in TARGETS:
            if reason := target.reason_against():
                found.append(PathResult(target.name, "not run", reason, ()))
                continue
            ran = self._on(target, cases)
            found.append(PathResult(ran.name, ran.status, ran.detail, ran.outputs))
        operators = Check("operators", "passed", "both runtimes have every one")
        if found_new := ", ".join(not_portable(self._model.operators)):
            operators = Check("operators", "failed", f"got {found_new}, which tflite-runtime has not: export again")
        return ModelResult(tuple(case.name for case in cases), tuple(left_out), tuple(found), operators)

    def _on(self, target: Target, cases: list[ModelCase]) -> TargetResult:
        subject = Subject(self._path, self._program)
        run_options = self._run_options(self._options.iterations)
        feeds = [case.feeds(self._program) for case in cases]
        expected = [narrowed(case, self._model.outputs) for case in cases]
        ran = compare_target(target, subject, expected, feeds, self._options, run_options)
        self._progress(target.name, 1, 1)
        return ran

    def _latency(self, calls: list[TableCall]) -> list[LatencyResult]:
        rows = next((call for call in calls if call.use == "rows"), None)
        if rows is None or rows.table.name not in self._layouts:
            return []
        layout = self._layouts[rows.table.name].name
        found = list(latency.measure_rows(rows, layout, self._options, self._timing_random))
        self._progress(f"latency of {rows.table.name}", 1, 1)
        return found

    def _run_options(self, iterations: int) -> RunOptions:
        return RunOptions(iterations=iterations, time_limit=self._options.time_limit)


def _layouts(lowered: LoweredProgram, model: TfliteModel) -> dict[str, Layout]:
    """How each table lies in the file, as far as it says so and the table can."""
    noted: Any = {}
    with suppress(ValueError):
        noted = json.loads(model.metadata.get(LAYOUTS_KEY, "{}"))
    layouts = {}
    for name, packed in lowered.tables.items():
        entry = noted.get(name) if isinstance(noted, dict) else None
        layout, method, possible = entry.get("layout") if isinstance(entry, dict) else None, METHODS[packed.method], []
        for wanted in get_args(TfliteTable):
            with suppress(BadInputError):
                possible.append(method.choose(packed, wanted))
        if layout in possible:
            layouts[name] = Layout(layout, method.table_bytes(packed, layout))
    return layouts
