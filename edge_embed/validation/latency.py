"""Latency of the operator library relative to the portable body, a dense twin and an empty call, as ratios.

The dense twin holds the same rows as float32 and computes the same with standard operators. A twin of more than 256 MB
is left out. The empty call (one Identity) shows the part of a small batch that is the call itself.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper

from edge_embed.errors import TimeLimitError, one_line
from edge_embed.exporters.onnx.names import IR_VERSION, OPSET
from edge_embed.program.program import Program
from edge_embed.report.results.validation import LatencyResult, LatencySection
from edge_embed.steps import step
from edge_embed.validation import ids as random_ids
from edge_embed.validation import paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.machine import machine
from edge_embed.validation.model_inputs import ModelCase, id_bounds
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.sizes import dense_bytes
from edge_embed.validation.submodel import Submodel
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.timing import (
    METHOD,
    BoundSession,
    Feeds,
    Times,
    ratio_of,
    ratios_of,
    ready_session,
    time_rounds,
)

EMPTY = "empty call"
ORIGINAL = "original"
LARGEST_DENSE = 256 << 20
_ROWS_AT_ONCE = 4096
_TRIALS = 2  # draws of ids, any of which a model may refuse


@dataclass(frozen=True)
class _Subject:
    """Name, number of ids and distribution of a measurement."""

    name: str
    ids: int | None
    distribution: str

    def result(self, peer: str, times: Mapping[str, Times], random: np.random.Generator) -> LatencyResult:
        both = times[paths.CUSTOM], times[peer]
        return latency_result(self.name, self.ids, self.distribution, peer, both, random)

    def not_run(self, peer: str, reason: str) -> LatencyResult:
        return LatencyResult(self.name, self.ids, self.distribution, peer, None, None, None, None, reason)


def latency_result(
    subject: str,
    ids: int | None,
    distribution: str,
    peer: str,
    times: tuple[Times, Times],
    random: np.random.Generator,
) -> LatencyResult:
    """Return the ratio of the times of a subject and of its peer."""
    ours, other = (each.cpu for each in times)
    ratio, samples = ratio_of(ours, other, random), tuple(map(float, ratios_of(ours, other)))
    figures = ratio.median, ratio.low, ratio.high, 1e6 * float(np.median(ours))
    return LatencyResult(subject, ids, distribution, peer, *figures, "", samples)


def section(results: Sequence[LatencyResult]) -> LatencySection:
    """Return the results with the machine that they were measured on."""
    return LatencySection(machine(threads=1), METHOD, tuple(results))


def measure_table(
    call: TableCall, submodel: Submodel, options: ValidationOptions, random: np.random.Generator
) -> list[LatencyResult]:
    """Measure one use of a table, for small and large batches of uniform and Zipf ids."""
    subject = f"table {call.table.name}" + ("" if call.use == "rows" else f", {call.name}")
    if reason := _reason_against(options):
        return [_Subject(subject, None, "any").not_run("any", reason)]
    with tempfile.TemporaryDirectory() as folder:
        sessions, skipped = _sessions(call, submodel, Path(folder))
        for session in sessions.values():
            touch_table(call, session, random)
        results = []
        for batch, calls in call.batches.items():
            for distribution in call.distributions:
                what = _Subject(subject, batch, distribution)
                draw = _drawer(call, random, distribution, batch, calls)
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
    original: Path | None = None,
) -> list[LatencyResult]:
    """Measure the whole model with the operator library against the portable body.

    Inputs have the sizes of one case, with new ids for each call.
    ``original`` is the file that was compressed in place, if any, and is one more peer.
    """
    subject = _Subject("model", None, f"uniform, {case.name}")
    if reason := _reason_against(options):
        return [subject.not_run("any", reason)]
    feeds, draw_one = case.feeds(program), model_drawer(program, case, random)
    files = {paths.CUSTOM: (exported.path, False), paths.PORTABLE: (exported.path, True)}
    if original is not None:
        files[ORIGINAL] = original, False
    bound = {
        name: ready_session(paths.open_session(path, portable, paths.quiet_options(threads=1)), feeds)
        for name, (path, portable) in files.items()
    }
    try:
        times = time_rounds(bound, lambda: [draw_one()], options.iterations, options.warmup, random)
    except TimeLimitError:
        raise
    except Exception as error:  # the runtime's exceptions share no base class
        return [subject.not_run("any", refused(error))]
    return [subject.result(peer, times, random) for peer in files if peer != paths.CUSTOM]


def refused(error: Exception) -> str:
    """Return the reason for a model that refuses random ids and is therefore not timed."""
    return f"the model fails on random ids: {one_line(error)}"


def model_drawer(program: Program, case: ModelCase, random: np.random.Generator) -> Callable[[], Feeds]:
    """Return a function that draws inputs of the sizes of a case: new uniform ids, the rest as in the case.

    A model may refuse random ids because it computes with them before a lookup; it gets the ids of the case.
    """
    feeds, bounds = case.feeds(program), id_bounds(program)

    def draw(random: np.random.Generator = random) -> Feeds:
        fresh = {
            name: random_ids.draw(random, "uniform", rows, feeds[name].shape, feeds[name].dtype)
            for name, rows in bounds.items()
        }
        return feeds | fresh

    trial = np.random.default_rng(0)
    return draw if all(_takes(program, draw(trial)) for _ in range(_TRIALS)) else lambda: feeds


def _takes(program: Program, feeds: Feeds) -> bool:
    named = ((declared, feeds[declared.name]) for declared in program.inputs)
    inputs: list[Any] = [given if each.holds_texts else torch.from_numpy(given).to(each.dtype) for each, given in named]
    try:
        program.run(*inputs)
    except TimeLimitError:
        raise
    except Exception:  # any exception of its operators
        return False
    return True


def _reason_against(options: ValidationOptions) -> str:
    return "no iterations were requested" if options.iterations == 0 else paths.missing_library()


def _drawer(
    call: TableCall, random: np.random.Generator, distribution: random_ids.Distribution, batch: int, calls: int
) -> Callable[[], list[Feeds]]:
    return lambda: [call.timed(random, distribution, batch) for _ in range(calls)]


def _sessions(
    call: TableCall, submodel: Submodel, folder: Path
) -> tuple[dict[str, ort.InferenceSession], dict[str, str]]:
    """Return single-threaded sessions of all contenders, and the reason for each peer that is left out."""
    inputs = [_value(name, kind) for name, kind in next(iter(call.signatures.values())).items()]
    sessions = {
        paths.CUSTOM: paths.open_session(submodel.path, False, paths.quiet_options(threads=1)),
        paths.PORTABLE: paths.open_session(submodel.path, True, paths.quiet_options(threads=1)),
        EMPTY: paths.open_session(_write_empty(inputs, folder), True, paths.quiet_options(threads=1)),
    }
    size = dense_bytes(call.table)
    if size > LARGEST_DENSE:
        return sessions, {
            call.dense: f"the dense table has {size:,} bytes, which exceeds the limit of {LARGEST_DENSE:,}"
        }
    dense = _write_dense(call, inputs, folder)
    sessions[call.dense] = paths.open_session(dense, True, paths.quiet_options(threads=1))
    return sessions, {}


def touch_table(call: TableCall, session: ort.InferenceSession, random: np.random.Generator) -> None:
    """Read every row once, because the first read of a mapped page costs more than the lookup."""
    for feeds in call.all_rows(random):
        with step(f"all rows of table {call.table.name} are read"):
            session.run(None, dict(feeds))


def _write_empty(inputs: list[onnx.ValueInfoProto], folder: Path) -> Path:
    node = helper.make_node("Identity", [inputs[0].name], ["result"])
    return _write(folder / "empty.onnx", [node], inputs, inputs[0].type.tensor_type.elem_type, [])


def _write_dense(call: TableCall, inputs: list[onnx.ValueInfoProto], folder: Path) -> Path:
    """Write the same rows as one float32 table, in blocks."""
    packed, data = call.table.packed, folder / "dense.data"
    with data.open("wb") as file:
        for start in range(0, packed.num_embeddings, _ROWS_AT_ONCE):
            rows = packed.rows(np.arange(start, min(start + _ROWS_AT_ONCE, packed.num_embeddings)))
            file.write(rows.astype("<f4", copy=False).tobytes())
    dims = (packed.num_embeddings, packed.embedding_dim)
    dense = TensorProto(name="table", dims=dims, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    dense.external_data.add(key="location", value=data.name)
    return _write(folder / "dense.onnx", call.dense_nodes(), inputs, TensorProto.FLOAT, [dense])


def _write(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    result_type: int,
    tensors: list[TensorProto],
) -> Path:
    result = helper.make_tensor_value_info("result", result_type, None)
    graph = helper.make_graph(nodes, "peer", inputs, [result], tensors)
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
    path.write_bytes(model.SerializeToString())
    return path


def _value(name: str, kind: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
