"""Speed of quantised rows beside the quantised operators of torch and ONNX Runtime.

    .venv/bin/python tests/benchmarks/row_kernels.py
    .venv/bin/python tests/benchmarks/row_kernels.py --columns

Rows are those of ``compress --method rows``: integers with a scale for each row. With ``--columns``, each column has
a codebook of its own: ``compress --method dpq`` with one column a group.

One thread. Contenders run in turns, in random order, on the same random ids; each gets its calls with outputs that
exist already, if it can. Figures are the fifth percentile of the wall time, in nanoseconds a row; for logits a row is a
row of the vocabulary. ``empty`` is the call of a kernel with nothing to do.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import edge_embed
from edge_embed.bench.c_table import table_of
from edge_embed.bench.c_types import buffer
from edge_embed.fitting import rows

ROUNDS, SIZE, POINTER = 40, ctypes.c_size_t, ctypes.c_void_p
Calls = dict[str, Callable[[], object]]


class Ids(ctypes.Structure):
    _fields_ = (("data", POINTER), ("count", ctypes.c_int64), ("type", ctypes.c_int32))


class Bags(ctypes.Structure):
    _fields_ = (("offsets", POINTER), ("num_bags", ctypes.c_int64), ("weights", POINTER), ("mode", ctypes.c_int32))


class Native:
    """The C interface for one table."""

    def __init__(self, packed: edge_embed.PackedDPQ, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._table, self._packed = table_of(packed), packed

    def _call(self, use: int, name: str, *arguments: object) -> Callable[[], object]:
        nbytes, table = SIZE(), ctypes.byref(self._table)
        assert self._library.ee_scratch_bytes(table, use, ctypes.c_int64(1), ctypes.byref(nbytes)) == 0
        scratch, function = buffer(nbytes.value), getattr(self._library, name)

        def call() -> None:
            assert function(table, *arguments, scratch, nbytes, None) == 0

        return call

    def gather(self, ids: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        given = Ids(ids.ctypes.data, len(ids), 7)
        return self._call(0, "ee_gather", ctypes.byref(given), POINTER(out.ctypes.data), SIZE(out.nbytes))

    def bag(self, ids: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        given, bags = Ids(ids.ctypes.data, len(ids), 7), Bags(offsets.ctypes.data, len(offsets) - 1, None, 0)
        output = POINTER(out.ctypes.data), SIZE(out.nbytes)
        return self._call(1, "ee_bag", ctypes.byref(given), ctypes.byref(bags), *output)

    def logits(self, hidden: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        batch = ctypes.c_int64(len(hidden))
        return self._call(
            2, "ee_logits", POINTER(hidden.ctypes.data), batch, POINTER(out.ctypes.data), SIZE(out.nbytes)
        )


def torch_bag(weight: torch.Tensor, bits: int) -> Callable[..., torch.Tensor]:
    """Return torch's bag of rows with a scale and an offset each."""
    name = "byte" if bits == 8 else f"{bits}bit"
    packed = getattr(torch.ops.quantized, f"embedding_bag_{name}_prepack")(weight)
    run = getattr(torch.ops.quantized, f"embedding_bag_{name}_rowwise_offsets")
    return lambda ids, offsets: run(packed, ids, offsets, mode=0)


def torch_call(weight: torch.Tensor, bits: int, ids: torch.Tensor, offsets: torch.Tensor) -> Calls:
    """Return the call of torch's bags; nothing for bits that it lacks."""
    if bits not in (2, 4, 8):
        return {}
    run = torch_bag(weight, bits)
    return {"torch": lambda: run(ids, offsets)}


def session_of(
    node: onnx.NodeProto, feeds: dict[str, np.ndarray], shape: tuple[int, ...], *stored: np.ndarray
) -> Calls:
    """Return the call of one node with bound inputs and outputs; nothing if ONNX Runtime refuses it."""
    constants = [numpy_helper.from_array(array, f"c{k}") for k, array in enumerate(stored)]
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)]
    opsets = [
        helper.make_opsetid("", 21),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("edge_embed", 1),
    ]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.register_custom_ops_library(str(edge_embed.get_library_path()))
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        binding.bind_ortvalue_output("out", ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)))
        session.run_with_iobinding(binding)
    except Exception as error:  # a bit width that this ONNX Runtime lacks
        print(f"  {node.op_type}: refused, {str(error).splitlines()[0][-100:]}")
        return {}
    return {node.op_type: lambda: session.run_with_iobinding(binding)}


def ours(
    packed: edge_embed.PackedDPQ, use: str, feeds: dict[str, np.ndarray], shape: tuple[int, ...], **more: int
) -> Calls:
    """Return our node in ONNX Runtime."""
    attributes = {"format_version": 1, "bits": packed.bits, "num_codes": packed.num_codes}
    attributes |= {"num_groups": packed.num_groups, "padding_idx": -1, **more}
    scaled = packed.row_scales is not None
    attributes |= {"unused_columns": 0} if scaled else {"share_subspaces": 0}
    names = [*feeds, *(f"c{k}" for k in range(len(packed.tensors())))]
    node = helper.make_node(f"DPQ{'Scaled' if scaled else ''}{use}", names, ["out"], domain="edge_embed", **attributes)
    return session_of(node, feeds, shape, *packed.tensors().values())


def blocked(random: np.random.Generator, n: int, dim: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and scales of ONNX Runtime's operators, in blocks of 32 columns."""
    return random.integers(0, 256, (n, dim * bits // 8), np.uint8), random.random((n, dim // 32), np.float32)


def measured(calls: Calls, items: int) -> dict[str, float]:
    random, times = np.random.default_rng(0), {name: [] for name in calls}
    for name in [name for _ in range(3) for name in calls]:
        calls[name]()
    for _ in range(ROUNDS):
        for name in random.permutation(list(calls)):
            start = time.perf_counter_ns()
            calls[name]()
            times[name].append(time.perf_counter_ns() - start)
    return {name: float(np.percentile(taken, 5)) / items for name, taken in times.items()}


def shown(title: str, calls: Calls, items: int) -> None:
    print(f"{title:32}", "  ".join(f"{name} {value:.1f}" for name, value in measured(calls, items).items()), flush=True)


def columnwise(random: np.random.Generator, n: int, dim: int, bits: int) -> edge_embed.PackedDPQ:
    """Return random codes, and a codebook for each column."""
    codes, values = random.integers(0, 1 << bits, (n, dim)), random.standard_normal((dim, 1 << bits, 1), np.float32)
    return edge_embed.PackedDPQ.from_codes(codes, values)


def measure(n: int, dim: int, bits: int, batch: int, columns: bool, libraries: dict[str, str]) -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((n, dim), np.float32)
    packed = columnwise(random, n, dim, bits) if columns else rows.fit(weight, bits).to_packed()
    natives = {name: Native(packed, library) for name, library in libraries.items()}
    has_peers = bits in (2, 4, 8)
    ids = random.integers(0, n, 4 * batch)
    place = f"{dim} columns, {bits} bits"
    offsets = np.arange(0, 4 * batch + 1, 4)
    out, all_rows = np.zeros((batch, dim), np.float32), np.zeros((4 * batch, dim), np.float32)
    given = torch.from_numpy(ids)
    feeds = {"ids": ids, "offsets": offsets, "weights": np.zeros(0, np.float32)}
    first = torch.from_numpy(offsets[:-1].copy())
    calls: Calls = {name: native.bag(ids, offsets, out) for name, native in natives.items()}
    calls |= torch_call(torch.from_numpy(weight), bits, given, first)
    calls |= ours(packed, "EmbeddingBag", feeds, (batch, dim), mode=0, weighted=0)
    shown(f"bags of four, {place}", calls, 4 * batch)

    data, scales = blocked(random, n, dim, bits)
    gather = helper.make_node(
        "GatherBlockQuantized", ["c0", "ids", "c1"], ["out"], domain="com.microsoft", bits=bits, block_size=32
    )
    calls = {name: native.gather(ids, all_rows) for name, native in natives.items()}
    calls |= torch_call(torch.from_numpy(weight), bits, given, torch.arange(4 * batch))
    calls |= ours(packed, "Embedding", {"ids": ids}, all_rows.shape)
    if has_peers:
        calls |= session_of(gather, {"ids": ids}, all_rows.shape, data, scales)
    shown(f"rows, {place}", calls, 4 * batch)

    for states in (1, 8):
        hidden = random.standard_normal((states, dim), np.float32)
        logits = np.zeros((states, n), np.float32)
        calls = {name: native.logits(hidden, logits) for name, native in natives.items()}
        calls |= ours(packed, "Logits", {"hidden": hidden}, logits.shape)
        # Level 0 of other widths takes a hundred times as long.
        for level in (0, 4) if bits == 4 else (4,) if has_peers else ():
            attributes = {"K": dim, "N": n, "bits": bits, "block_size": 32, "accuracy_level": level}
            node = helper.make_node(
                "MatMulNBits", ["hidden", "c0", "c1"], ["out"], domain="com.microsoft", **attributes
            )
            stored = data.reshape(n, dim // 32, -1), scales.reshape(-1)
            made = session_of(node, {"hidden": hidden}, logits.shape, *stored)
            calls |= {f"{name} level {level}": call for name, call in made.items()}
        shown(f"logits, {states} states, {place}", calls, n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--dim", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--batch", type=int, default=1024, help="bags; four times as many rows")
    parser.add_argument("--columns", action="store_true", help="each column has a codebook of its own")
    parser.add_argument("--library", nargs="+", default=[], help="further builds of the operator library to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    libraries = {"kernel": str(edge_embed.get_library_path())}
    libraries |= {f"kernel of {Path(library).stem}": library for library in options.library}
    for dim in options.dim:
        for bits in options.bits:
            measure(options.rows, dim, bits, options.batch, options.columns, libraries)


if __name__ == "__main__":
    main()
