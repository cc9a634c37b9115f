"""Latency of compressed tables beside dense ones: lookups beside Gather, logits beside MatMul, side by side.

Each figure is a median. All cases of a table take turns, so that they meet the same clocks.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import edge_embed
from edge_embed import workflow
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.targets.pytorch import full_float32
from tests.gpu.table import Table, outcome

_LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Sizes:
    """Sizes of the tables and of the calls."""

    rows: int = 268_000
    width: int = 512
    batch: int = 65_536
    rounds: int = 20
    seconds: float = 8.0


def tables(sizes: Sizes) -> dict[str, CompressedEmbedding]:
    """Return frozen tables of random numbers: their speed depends on sizes alone."""
    random = np.random.default_rng(0)
    n, d = sizes.rows, sizes.width
    values = random.standard_normal((d // 8, 256, 8), np.float32)
    dpq = edge_embed.PackedDPQ(random.integers(0, 256, (n, d // 8), np.uint8), values, d // 8)
    anchors, kept = 500, 8
    starts = np.arange(0, n * kept + 1, kept, dtype=np.int32)
    ids = np.sort(random.integers(0, anchors // kept, (n, kept)) + np.arange(kept) * (anchors // kept)).ravel()
    weights = random.random(n * kept, np.float32) + 0.1
    vectors = random.standard_normal((anchors, d), np.float32)
    ant = edge_embed.PackedANT(starts, ids.astype(np.uint16), weights, np.ones(1, np.float32), vectors)
    return {
        "DPQ": edge_embed.DPQEmbedding.from_packed(dpq),
        "ANT": edge_embed.ANTEmbedding.from_packed(ant),
        "TT": edge_embed.TTEmbedding(n, d, rank=16).freeze(),
    }


Call = Callable[[], Any]


def torch_latency(device: str, sizes: Sizes, held: Mapping[str, CompressedEmbedding]) -> list[Table]:
    """Time layers of torch on a device beside ``nn.Embedding`` and a product with the dense table."""
    dense = torch.nn.Embedding(sizes.rows, sizes.width, device=device)
    ids = torch.randint(0, sizes.rows, (sizes.batch,), device=device)
    hidden = torch.randn(1, sizes.width, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    lookups: dict[str, Call] = {"nn.Embedding (dense)": lambda: dense(ids)}
    logits: dict[str, Call] = {"linear (dense)": lambda: torch.nn.functional.linear(hidden, dense.weight)}
    for name, layer in held.items():
        there = layer.to(device)
        lookups[name] = lambda there=there: there(ids)
        logits[name] = lambda there=there: there.logits(hidden)
    with torch.no_grad(), full_float32():
        return [
            _timed(f"torch: lookup of {sizes.batch:,} ids, {_of(sizes)}", lookups, sizes, wait),
            _timed(f"torch: logits of one state, {_of(sizes)}", logits, sizes, wait),
        ]


def onnx_latency(device: str, sizes: Sizes, held: Mapping[str, CompressedEmbedding], folder: Path) -> list[Table]:
    """Time exported lookups and output layers beside Gather and MatMul, with and without transfers."""
    ids = np.random.default_rng(0).integers(0, sizes.rows, sizes.batch)
    hidden = np.random.default_rng(0).standard_normal((1, sizes.width), np.float32)
    table = np.random.default_rng(0).standard_normal((sizes.rows, sizes.width), np.float32)
    lookups, logits = _dense(folder, table), _dense(folder, np.ascontiguousarray(table.T))
    cases: tuple[dict[str, Call], dict[str, Call]] = ({}, {})
    for at, (given, model, name) in enumerate(((ids, lookups, "Gather"), (hidden, logits, "MatMul"))):
        _add(cases[at], f"{name} (dense)", device, model, given)
    for name, layer in held.items():
        here = layer.to("cpu")
        for at, (module, given) in enumerate(((here, ids), (edge_embed.TiedOutput(here), hidden))):
            path = folder / f"{name}{at}.onnx"
            program = workflow.load(module.eval(), (torch.from_numpy(given),))
            workflow.export(program, "onnx", path, force=True)
            _add(cases[at], name, device, path, given)
    return [
        _timed(f"ONNX Runtime: lookup of {sizes.batch:,} ids, {_of(sizes)}", cases[0], sizes, lambda: None),
        _timed(f"ONNX Runtime: logits of one state, {_of(sizes)}", cases[1], sizes, lambda: None),
    ]


def _of(sizes: Sizes) -> str:
    return f"table {sizes.rows:,} by {sizes.width}"


def _dense(folder: Path, table: np.ndarray[Any, Any]) -> Path:
    """Write a model that looks rows up, or multiplies with a table [d, n], which is wider than long."""
    rows, columns = table.shape
    looks_up = rows > columns
    kind, shape = (TensorProto.INT64, ["n"]) if looks_up else (TensorProto.FLOAT, ["n", rows])
    node = helper.make_node("Gather" if looks_up else "MatMul", ["t", "x"] if looks_up else ["x", "t"], ["y"])
    graph = helper.make_graph(
        [node],
        "dense",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", columns])],
        [numpy_helper.from_array(table, "t")],
    )
    path = folder / f"{node.op_type}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def _add(cases: dict[str, Call], name: str, device: str, path: Path, given: np.ndarray[Any, Any]) -> None:
    """Add a case with transfers and one whose input and output stay on the device."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    cuda = [("CUDAExecutionProvider", {"use_tf32": "0"})] if device == "cuda" else []
    session = ort.InferenceSession(str(path), options, providers=[*cuda, "CPUExecutionProvider"])
    (one,), (result, *_) = session.get_inputs(), session.get_outputs()
    binding = session.io_binding()
    binding.bind_ortvalue_input(one.name, ort.OrtValue.ortvalue_from_numpy(given, device, 0))
    binding.bind_output(result.name, device, 0)
    cases[f"{name}, with transfers"] = lambda: session.run(None, {one.name: given})
    cases[f"{name}, bound to the device"] = lambda: session.run_with_iobinding(binding)


def _timed(title: str, cases: Mapping[str, Call], sizes: Sizes, wait: Callable[[], None]) -> Table:
    """Time all cases in turn."""
    texts = {name: outcome(lambda call=call: _once(call, wait) and "") for name, call in cases.items()}
    works = [name for name, text in texts.items() if not text.startswith("FAILED")]
    times: dict[str, list[float]] = {name: [] for name in works}
    end = time.perf_counter() + sizes.seconds
    for at in range(sizes.rounds):
        if at >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
        for name in works:
            times[name].append(_once(cases[name], wait))
    first = median(times[works[0]])
    rows = []
    for name, text in texts.items():
        found = times.get(name)
        if found:
            rows.append([name, f"{1e3 * median(found):.3f}", f"{median(found) / first:.2f}", str(len(found))])
        else:
            rows.append([name, text, "", ""])
    return Table(title, ["case", "median, ms", "beside the first", "calls"], rows)


def _once(call: Call, wait: Callable[[], None]) -> float:
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start
