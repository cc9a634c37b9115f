"""Latency of the custom op against the portable body, a dense Gather twin and an empty call, as ratios.

The dense twin holds the same rows as float32; it is left out where it would take more than 256 MB. The empty
call (one Identity on the ids) shows how much of a small batch is the call itself.
"""

import os
import platform
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from edge_embed.exporters.onnx.names import IR_VERSION, OPSET
from edge_embed.program.program import Program
from edge_embed.report.results import LatencyResult, LatencySection
from edge_embed.validation import ids as random_ids
from edge_embed.validation import paths
from edge_embed.validation.exported import ExportedModel
from edge_embed.validation.model_inputs import ModelCase, id_bounds
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.size import dense_bytes
from edge_embed.validation.submodel import Submodel
from edge_embed.validation.tables import Table
from edge_embed.validation.timing import METHOD, BoundSession, Feeds, ratio_of, time_rounds

DENSE, EMPTY = "dense Gather", "empty call"
_LARGEST_DENSE = 256 << 20
_BATCHES = {1: 32, 4096: 1}  # ids a call, and calls a sample: one small call is shorter than the clock is good for
_ROWS_AT_ONCE = 4096
_DISTRIBUTIONS: tuple[random_ids.Distribution, ...] = ("uniform", "zipf")


@dataclass(frozen=True)
class _Subject:
    """What is measured, in words."""

    name: str
    ids: int | None
    distribution: str

    def result(self, peer: str, times: Mapping[str, Any], random: np.random.Generator) -> LatencyResult:
        ratio = ratio_of(times[paths.CUSTOM], times[peer], random)
        microseconds = 1e6 * float(np.median(times[paths.CUSTOM]))
        return LatencyResult(
            self.name, self.ids, self.distribution, peer, ratio.median, ratio.low, ratio.high, microseconds, ""
        )

    def not_run(self, peer: str, reason: str) -> LatencyResult:
        return LatencyResult(self.name, self.ids, self.distribution, peer, None, None, None, None, reason)


def section(results: Sequence[LatencyResult]) -> LatencySection:
    """Results with the machine they are from."""
    return LatencySection(_machine(), METHOD, tuple(results))


def measure_table(
    table: Table, submodel: Submodel, options: ValidationOptions, random: np.random.Generator
) -> list[LatencyResult]:
    """One table, for small and large batches of uniform and Zipf ids."""
    subject = f"table {table.name}"
    if reason := _reason_against(options):
        return [_Subject(subject, None, "any").not_run("any", reason)]
    with tempfile.TemporaryDirectory() as folder:
        sessions, skipped = _sessions(table, submodel, Path(folder))
        for session in sessions.values():
            _read_all_rows(session, table.packed.num_embeddings)
        results = []
        for batch, calls in _BATCHES.items():
            for distribution in _DISTRIBUTIONS:
                what = _Subject(subject, batch, distribution)
                draw = _ids_drawer(random, distribution, table.packed.num_embeddings, batch, calls)
                bound = {name: BoundSession(session, draw()[0], calls) for name, session in sessions.items()}
                times = time_rounds(bound, draw, options.iterations, options.warmup, random)
                results += [what.result(peer, times, random) for peer in sessions if peer != paths.CUSTOM]
                results += [what.not_run(peer, reason) for peer, reason in skipped.items()]
    return results


def measure_model(
    program: Program,
    exported: ExportedModel,
    case: ModelCase,
    options: ValidationOptions,
    random: np.random.Generator,
) -> list[LatencyResult]:
    """The whole model, custom op against portable body, with the sizes of one case and fresh ids each call."""
    subject = _Subject("model", None, f"uniform, {case.name}")
    if reason := _reason_against(options):
        return [subject.not_run("any", reason)]
    feeds, bounds = case.feeds(program), id_bounds(program)

    def draw() -> list[Feeds]:
        fresh = {
            name: random_ids.draw(random, "uniform", rows, feeds[name].shape, feeds[name].dtype)
            for name, rows in bounds.items()
        }
        return [feeds | fresh]

    bound = {
        name: BoundSession(paths.open_session(exported.path, portable, paths.quiet_options(threads=1)), feeds)
        for name, portable in ((paths.CUSTOM, False), (paths.PORTABLE, True))
    }
    times = time_rounds(bound, draw, options.iterations, options.warmup, random)
    return [subject.result(paths.PORTABLE, times, random)]


def _reason_against(options: ValidationOptions) -> str:
    return "no iterations were asked for" if options.iterations == 0 else paths.missing_library()


def _ids_drawer(
    random: np.random.Generator, distribution: random_ids.Distribution, n: int, batch: int, calls: int
) -> Callable[[], list[Feeds]]:
    return lambda: [{"ids": random_ids.draw(random, distribution, n, (batch,))} for _ in range(calls)]


def _sessions(table: Table, submodel: Submodel, folder: Path) -> tuple[dict[str, ort.InferenceSession], dict[str, str]]:
    """Single-threaded sessions of all contenders, and the peers left out with the reason."""
    sessions = {
        paths.CUSTOM: paths.open_session(submodel.path, False, paths.quiet_options(threads=1)),
        paths.PORTABLE: paths.open_session(submodel.path, True, paths.quiet_options(threads=1)),
        EMPTY: paths.open_session(_write_empty(folder), True, paths.quiet_options(threads=1)),
    }
    size = dense_bytes(table)
    if size > _LARGEST_DENSE:
        return sessions, {DENSE: f"the dense table has {size:,} bytes, the limit here is {_LARGEST_DENSE:,}"}
    sessions[DENSE] = paths.open_session(_write_dense(table, folder), True, paths.quiet_options(threads=1))
    return sessions, {}


def _read_all_rows(session: ort.InferenceSession, n: int) -> None:
    """Touch every row once: the first read of a mapped page costs more than the look-up."""
    for start in range(0, n, _ROWS_AT_ONCE):
        session.run(None, {"ids": np.arange(start, min(start + _ROWS_AT_ONCE, n))})


def _write_empty(folder: Path) -> Path:
    node = helper.make_node("Identity", ["ids"], ["rows"])
    return _write(folder / "empty.onnx", node, TensorProto.INT64, [])


def _write_dense(table: Table, folder: Path) -> Path:
    """The same rows as one float32 table, written in blocks."""
    n, data = table.packed.num_embeddings, folder / "dense.data"
    with data.open("wb") as file:
        for start in range(0, n, _ROWS_AT_ONCE):
            rows = table.packed.rows(np.arange(start, min(start + _ROWS_AT_ONCE, n)))
            file.write(rows.astype("<f4", copy=False).tobytes())
    dims = (n, table.packed.embedding_dim)
    dense = TensorProto(name="table", dims=dims, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    dense.external_data.add(key="location", value=data.name)
    node = helper.make_node("Gather", ["table", "ids"], ["rows"])
    return _write(folder / "dense.onnx", node, TensorProto.FLOAT, [dense])


def _write(path: Path, node: onnx.NodeProto, rows_type: int, tensors: list[TensorProto]) -> Path:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, None)
    rows = helper.make_tensor_value_info("rows", rows_type, None)
    graph = helper.make_graph([node], "peer", [ids], [rows], tensors)
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
    path.write_bytes(model.SerializeToString())
    return path


def _machine() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": f"{os.cpu_count()} cores, 1 used",
        "system": f"{platform.system()} {platform.machine()}",
        "runtime": f"onnxruntime {ort.__version__}",
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown processor"
