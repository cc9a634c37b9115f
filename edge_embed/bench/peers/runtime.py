"""ONNX Runtime: our node with its kernel and with its body, an empty call, and the operators of dense tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edge_embed.bench.peers.peer import Bind, Peer
from edge_embed.bench.sessions import bind_nodes
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import Bag, BenchUse
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.validation.bag import dense_bag_nodes
from edge_embed.validation.tables import Table

_SESSION_USES = ("rows", "bag", "logits")
_BLOCK = 32  # weights of a head that share one scale


def _node(table: BenchTable, use: BenchUse, threads: int, library: bool) -> Bind:
    packed = Table("table", table.packed)
    operator = packed.onnx.operator(use.operator)
    leading = (None, None, None, use.mode) if isinstance(use, Bag) else (None,)
    attributes: dict[str, Any] = operator.attributes(*leading, *packed.arguments)
    tensors = dict(zip(packed.tensors, table.packed.tensors().values(), strict=True))
    weights = {"sample_weights": np.zeros(0, packed.value_type)} if isinstance(use, Bag) else {}
    inputs = [*use.inputs, *weights, *tensors]
    node = helper.make_node(operator.op_type, inputs, ["result"], domain=DOMAIN, **attributes)
    used = {one.op_type: one for one in (packed.onnx.operator("rows"), operator)}  # the others call rows
    return bind_nodes(
        [node],
        tensors | weights,
        use,
        threads,
        result_type=TensorProto.FLOAT if use.name == "logits" else helper.np_dtype_to_tensor_dtype(packed.value_type),
        functions=[one.function(len(tensors)) for one in used.values()],
        library=library,
    )


def _custom(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return _node(table, use, threads, library=True)


def _portable(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return _node(table, use, threads, library=False)


def _empty(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    name, (kind, _) = next(iter(use.inputs.items()))
    result_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return bind_nodes([helper.make_node("Identity", [name], ["result"])], {}, use, threads, result_type=result_type)


def _gather(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return bind_nodes([helper.make_node("Gather", ["table", "ids"], ["result"])], {"table": table.dense}, use, threads)


def _gather_and_reduce(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    assert isinstance(use, Bag)
    nodes = dense_bag_nodes(use.mode, table.packed.embedding_dim)
    return bind_nodes(nodes, {"table": table.dense}, use, threads)


def _matmul(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    node = helper.make_node("MatMul", ["hidden", "table"], ["result"])
    return bind_nodes([node], {"table": np.ascontiguousarray(table.dense.T)}, use, threads)


def _int8(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    """One scale a row of the table, zero in the middle."""
    scales = np.maximum(np.abs(table.dense).max(1), np.float32(1e-30)) / 127  # [n]
    quantised = np.rint(table.dense / scales[:, np.newaxis]).astype(np.int8)  # [n, d]
    tensors = {"weights": np.ascontiguousarray(quantised.T), "scales": scales}
    inputs = ["hidden", *tensors]
    node = helper.make_node("DynamicQuantizeMatMul", inputs, ["result"], domain="com.microsoft")
    return bind_nodes([node], tensors, use, threads)


def _int4(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    n, dim = table.dense.shape
    if dim % _BLOCK:
        raise LeftOutError(f"its blocks have {_BLOCK} weights, the rows {dim}: no multiple of it")
    blocks = table.dense.reshape(n, dim // _BLOCK, _BLOCK)
    scales = np.maximum(np.abs(blocks).max(2), np.float32(1e-30)) / 7  # [n, d / 32]
    nibbles = (np.rint(blocks / scales[..., np.newaxis]) + 8).astype(np.uint8)  # [n, d / 32, 32], 1 ... 15
    tensors: dict[str, NDArray[np.generic]] = {
        "weights": nibbles[..., ::2] | nibbles[..., 1::2] << 4,
        "scales": scales.reshape(-1),
    }
    attributes = {"K": dim, "N": n, "bits": 4, "block_size": _BLOCK, "accuracy_level": 4}
    inputs = ["hidden", *tensors]
    node = helper.make_node("MatMulNBits", inputs, ["result"], domain="com.microsoft", **attributes)
    return bind_nodes([node], tensors, use, threads)


CUSTOM = Peer("custom op", "the node with its kernel", _SESSION_USES, _custom, by_empty_call=True)
EMPTY = Peer("empty call", "one Identity on the first input", _SESSION_USES, _empty, by_empty_call=True)
PEERS = (
    Peer(
        "portable body", "the same node by its body of standard operators", _SESSION_USES, _portable, by_empty_call=True
    ),
    Peer("ORT Gather", "Gather from the float32 table", ("rows",), _gather, by_empty_call=True),
    Peer(
        "ORT Gather and reduce", "Gather, then a reduction over bags", ("bag",), _gather_and_reduce, by_empty_call=True
    ),
    Peer("ORT MatMul", "MatMul with the float32 table, stored transposed", ("logits",), _matmul, by_empty_call=True),
    Peer(
        "ORT dynamic int8",
        "DynamicQuantizeMatMul: int8 weights, one scale a row; states to 8 bits in the call",
        ("logits",),
        _int8,
        exact=False,
        by_empty_call=True,
    ),
    Peer(
        "ORT MatMulNBits int4",
        f"MatMulNBits: 4-bit weights in blocks of {_BLOCK}, accuracy level 4 (states to 8 bits in the call)",
        ("logits",),
        _int4,
        exact=False,
        by_empty_call=True,
    ),
)
