"""Portable bodies and kernels beside dense tables: ``python tests/benchmarks/portable_body.py``.

Rows of 4,096 uniform random ids against ONNX Runtime's Gather from the float32 table, and heads over 33,000 rows
against its MatMul with the float32 table, which is stored transposed. One thread. Contenders run in random order
within each round, on the same inputs, drawn anew for every round; the clock is the CPU time of that thread. Given
are medians, and the median ratios to the dense time with their 95 % bootstrap intervals. Goals are those of the bodies;
they are told, and decide nothing.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from edge_embed.exporters.onnx.export import METHODS
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, IR_VERSION, OPSET
from edge_embed.lowering.graph import METHODS as LOWERING
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.bits import bits_for, row_bytes
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.tt import PackedTT
from edge_embed.runtime.library import get_library_path

IDS, HEAD_ROWS, STATES = 4096, 33_000, 512
RANDOM = np.random.default_rng(0)
Feeds = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Case:
    """One line of the table: what is compressed how, and the ratio it should stay below."""

    name: str
    table: Callable[[int, int], Any]
    sizes: tuple[tuple[int, int], ...]
    goal: float


def dpq(codes: int, width: int) -> Callable[[int, int], PackedDPQ]:
    def make(n: int, dim: int) -> PackedDPQ:
        groups = dim // width
        if codes == 1 << bits_for(codes):  # all bytes are codes
            stored = RANDOM.integers(0, 256, (n, row_bytes(groups, bits_for(codes))), dtype=np.uint8)
            return PackedDPQ(stored, _normal(groups, codes, width), groups)
        return PackedDPQ.from_codes(RANDOM.integers(0, codes, (n, groups)), _normal(groups, codes, width))

    return make


def ant(anchors: int, nonzeros: int) -> Callable[[int, int], PackedANT]:
    def make(n: int, dim: int) -> PackedANT:
        chosen = np.sort(RANDOM.random((n, anchors), np.float32).argsort(1)[:, :nonzeros].astype(np.uint8), 1)
        offsets = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
        weights = RANDOM.random(n * nonzeros, np.float32) + np.float32(0.1)
        return PackedANT(offsets, chosen.reshape(-1), weights, np.ones(1, np.float32), _normal(anchors, dim))

    return make


def tt(rank: int) -> Callable[[int, int], PackedTT]:
    def make(n: int, dim: int) -> PackedTT:
        rows = 3 * (int(np.ceil(np.cbrt(n))),)
        columns, ranks = (dim // (8 * 8), 8, 8) if dim > 128 else (4, 4, dim // 16), (1, rank, rank, 1)
        return PackedTT(tuple(_normal(rows[k], ranks[k], columns[k], ranks[k + 1]) for k in range(3)), n)

    return make


def _normal(*shape: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return RANDOM.standard_normal(shape, np.float32)


SIZES = ((100_000, 256), (1_000_000, 128))
ROWS = (
    Case("DPQ K=16 s=8", dpq(16, 8), SIZES, 2.5),
    Case("DPQ K=16 s=4", dpq(16, 4), SIZES, 2.5),
    Case("DPQ K=256 s=8", dpq(256, 8), SIZES, 2.5),
    Case("DPQ K=256 s=4", dpq(256, 4), SIZES, 2.5),
    Case("DPQ K=60 s=8", dpq(60, 8), SIZES[:1], float("nan")),
    Case("DPQ K=1000 s=8", dpq(1000, 8), SIZES[:1], float("nan")),
    Case("ANT A=64 m=8", ant(64, 8), ((100_000, 256), (500_000, 128)), 6),
    Case("ANT A=100 m=8", ant(100, 8), ((100_000, 256), (500_000, 128)), 6),
    Case("TT R=16", tt(16), SIZES, 15),
)
HEADS = (
    Case("DPQ K=16 s=4", dpq(16, 4), ((HEAD_ROWS, 128), (HEAD_ROWS, 256)), 3),
    Case("DPQ K=256 s=8", dpq(256, 8), ((HEAD_ROWS, 128), (HEAD_ROWS, 256)), 3),
    Case("ANT A=100 m=8", ant(100, 8), ((HEAD_ROWS, 128), (HEAD_ROWS, 256)), 3),
    Case("TT R=16", tt(16), ((HEAD_ROWS, 128), (HEAD_ROWS, 256)), 3),
)


def ours(packed: Any, use: Any, feed: str, dtype: int, rank: int) -> list[ort.InferenceSession]:
    """Sessions on the node: with its body, and with its kernel from the operator library."""
    (method,) = [method for method in METHODS if method.name == packed.method]
    (lowering,) = [method for method in LOWERING if method.name == packed.method]
    tensors = packed.tensors()
    operator = method.operator(use)
    attributes = operator.attributes(None, *lowering.arguments(packed, list(tensors.values())))
    node = helper.make_node(operator.op_type, [feed, *tensors], ["result"], domain=DOMAIN, **attributes)
    used = [method.operator("rows"), *([operator] if use != "rows" else [])]
    functions = [one.function(len(tensors)) for one in used]
    return [_session(node, tensors, feed, dtype, rank, functions, library) for library in (False, True)]


def dense(op_type: str, inputs: list[str], table: Any, feed: str, dtype: int, rank: int) -> ort.InferenceSession:
    """A session on the operator that a dense table is used by."""
    return _session(helper.make_node(op_type, inputs, ["result"]), {"table": table}, feed, dtype, rank, [])


def _session(
    node: onnx.NodeProto,
    tensors: Any,
    feed: str,
    dtype: int,
    rank: int,
    functions: list[onnx.FunctionProto],
    library: bool = False,
) -> ort.InferenceSession:
    graph = helper.make_graph(
        [node],
        "benchmark",
        [helper.make_tensor_value_info(feed, dtype, [None] * rank)],
        [helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)]
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=imports, functions=functions)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if library:
        options.register_custom_ops_library(str(get_library_path()))
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def compare(sessions: list[ort.InferenceSession], draw: Callable[[], Feeds], rounds: int) -> np.ndarray[Any, Any]:
    """Seconds by session and round, [sessions, rounds]."""
    seconds = np.empty((len(sessions), rounds))
    for number in range(-2, rounds):  # two to warm up
        feeds = draw()
        for at in random.sample(range(len(sessions)), len(sessions)):
            start = time.thread_time_ns()
            sessions[at].run(None, feeds)
            seconds[at, number] = (time.thread_time_ns() - start) / 1e9
    return seconds


def line(name: str, size: tuple[int, int], what: str, seconds: Any, goal: float) -> str:
    """A line of the table: dense, body, kernel."""
    shown = f"{name:15} {size[0]:>9,} x {size[1]:<4} {what:11} dense {np.median(seconds[0]) * 1e3:8.3f} ms"
    for contender, taken in zip(("body", "kernel"), seconds[1:], strict=True):
        ratios = taken / seconds[0]
        resampled = np.median(RANDOM.choice(ratios, (1000, len(ratios))), 1)
        low, high = np.percentile(resampled, [2.5, 97.5])
        shown += f"   {contender} {np.median(taken) * 1e3:8.3f} ms {np.median(ratios):6.2f} [{low:.2f}, {high:.2f}]"
    goal_met = np.median(seconds[1] / seconds[0]) <= goal
    return shown + ("" if np.isnan(goal) else f"   goal {goal:g}: {'met' if goal_met else 'missed'}")


def row_lines(ids: int, rounds: int, scale: int = 1) -> Iterator[str]:
    """Lookups of ``ids`` ids in tables of one ``scale``-th of the rows."""
    for case in ROWS:
        for n, dim in case.sizes:
            count = n // scale
            table = _normal(count, dim)
            sessions = [
                dense("Gather", ["table", "ids"], table, "ids", onnx.TensorProto.INT64, 1),
                *ours(case.table(count, dim), "rows", "ids", onnx.TensorProto.INT64, 1),
            ]
            seconds = compare(sessions, lambda count=count: {"ids": RANDOM.integers(0, count, ids)}, rounds)  # type: ignore[misc]
            yield line(case.name, (count, dim), f"{ids} ids", seconds, case.goal if ids == IDS else float("nan"))


def head_lines(states: int, rounds: int, scale: int = 1) -> Iterator[str]:
    """Logits of ``states`` hidden states."""
    for case in HEADS:
        for n, dim in case.sizes:
            count = n // scale
            sessions = [
                dense("MatMul", ["hidden", "table"], _normal(dim, count), "hidden", onnx.TensorProto.FLOAT, 2),
                *ours(case.table(count, dim), "logits", "hidden", onnx.TensorProto.FLOAT, 2),
            ]
            seconds = compare(sessions, lambda dim=dim: {"hidden": _normal(states, dim)}, rounds)  # type: ignore[misc]
            yield line(
                case.name, (count, dim), f"{states} states", seconds, case.goal if states == STATES else float("nan")
            )


def main() -> None:
    for lines in (
        row_lines(IDS, 40),
        row_lines(1, 200),
        head_lines(STATES, 11),
        *(head_lines(states, 21) for states in (64, 8, 1)),
    ):
        for text in lines:
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
