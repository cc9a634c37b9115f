"""Peers in ONNX Runtime: our node with kernel and with body, an empty call, and the operators of dense tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper

from edge_embed.bench.peers.peer import Bind, Peer
from edge_embed.bench.sessions import bind_nodes
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import USES, Bag, BenchUse, TopK
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.exporters.onnx.session_memory.method import memory_uses
from edge_embed.validation.bag import dense_bag_nodes
from edge_embed.validation.tables import Table

_SESSION_USES = ("rows", "bag", "logits", "topk")
_OUTPUT_LAYERS = ("logits", "topk")
_THEN = "; for topk, followed by TopK"
_BLOCK = 32  # weights of an output layer that share one scale


def _node(
    table: BenchTable, use: BenchUse, threads: int, library: bool = True, after: Sequence[NodeProto] = ()
) -> Bind:
    packed = Table("table", table.packed)
    operator = packed.onnx.operator(use.operator)
    attributes: dict[str, Any] = operator.attributes(*use.leading, *packed.arguments)
    if table.memory_bytes is not None and use.operator in memory_uses(table.packed.method):
        attributes[MEMORY_BYTES] = table.memory_bytes
    tensors = dict(zip(packed.tensors, table.packed.tensors().values(), strict=True))
    absent = _absent(packed, use)
    node = helper.make_node(
        operator.op_type, [*use.inputs, *absent, *tensors], use.outputs, domain=DOMAIN, **attributes
    )
    memory_bytes = attributes.get(MEMORY_BYTES) if packed.onnx.around is not None else None
    return bind_nodes(
        [node, *after],
        tensors | absent,
        use.inputs,
        threads,
        functions=[
            *(called.function(count) for called, count in operator.called(len(tensors))),
            operator.function(len(tensors), memory_bytes),
        ],
        library=library,
    )


def _absent(packed: Table, use: BenchUse) -> dict[str, NDArray[Any]]:
    """Return the optional inputs of the node that are left out."""
    if use.operator == "bag":
        return {"sample_weights": np.zeros(0, packed.row_type)}
    return {"bias": np.zeros(0, np.float32)} if use.operator == "topk" else {}


def _portable(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return _node(table, use, threads, library=False)


def _empty(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return bind_nodes([helper.make_node("Identity", [next(iter(use.inputs))], ["result"])], {}, use.inputs, threads)


def _gather(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return bind_nodes(
        [helper.make_node("Gather", ["table", "ids"], ["result"])], {"table": table.dense}, use.inputs, threads
    )


def _gather_and_reduce(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    assert isinstance(use, Bag)
    nodes = dense_bag_nodes(use.mode, table.packed.embedding_dim)
    return bind_nodes(nodes, {"table": table.dense}, use.inputs, threads)


def _largest(use: BenchUse) -> list[NodeProto]:
    """Return the nodes that find the largest of the logits ``result``, if the use is top-k."""
    if not isinstance(use, TopK):
        return []
    k = helper.make_node("Constant", [], ["k"], value_ints=[use.k])
    return [k, helper.make_node("TopK", ["result", "k"], use.outputs)]


def _logits_and_topk(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return _node(table, USES["logits"], threads, after=_largest(use))


def _matmul(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    node = helper.make_node("MatMul", ["hidden", "table"], ["result"])
    return bind_nodes([node, *_largest(use)], {"table": np.ascontiguousarray(table.dense.T)}, use.inputs, threads)


def _int8(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    """Quantise with one scale for each row of the table, and zero point 0.

    Weights have 7 bits (``reduce_range`` of ONNX Runtime's quantiser): with 8, its sums saturate on processors without
    VNNI.
    """
    scales = np.maximum(np.abs(table.dense).max(1), np.float32(1e-30)) / 63  # [n]
    quantised = np.rint(table.dense / scales[:, np.newaxis]).astype(np.int8)  # [n, d]
    tensors = {"weights": np.ascontiguousarray(quantised.T), "scales": scales}
    inputs = ["hidden", *tensors]
    node = helper.make_node("DynamicQuantizeMatMul", inputs, ["result"], domain="com.microsoft")
    return bind_nodes([node, *_largest(use)], tensors, use.inputs, threads)


def _int4(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    n, dim = table.dense.shape
    if dim % _BLOCK:
        raise LeftOutError(f"got rows of {dim} columns, expected a multiple of {_BLOCK}, the weights of a block")
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
    return bind_nodes([node, *_largest(use)], tensors, use.inputs, threads)


CUSTOM = Peer("custom op", "the node with its kernel", _SESSION_USES, _node, by_empty_call=True)
EMPTY = Peer("empty call", "one Identity on the first input", _SESSION_USES, _empty, by_empty_call=True)
PEERS = (
    Peer(
        "portable body",
        "the same node, computed by its body of standard operators",
        _SESSION_USES,
        _portable,
        by_empty_call=True,
    ),
    Peer("ORT Gather", "Gather from the float32 table", ("rows",), _gather, by_empty_call=True),
    Peer(
        "ORT Gather and reduce", "Gather, then a reduction over bags", ("bag",), _gather_and_reduce, by_empty_call=True
    ),
    Peer(
        "custom op, ORT TopK",
        "the node of logits with its kernel, then TopK",
        ("topk",),
        _logits_and_topk,
        by_empty_call=True,
    ),
    Peer(
        "ORT MatMul",
        f"MatMul with the float32 table, stored transposed{_THEN}",
        _OUTPUT_LAYERS,
        _matmul,
        by_empty_call=True,
    ),
    Peer(
        "ORT dynamic int8",
        f"DynamicQuantizeMatMul: int8 weights of 7 bits, one scale per row; states to 8 bits in the call{_THEN}",
        _OUTPUT_LAYERS,
        _int8,
        exact=False,
        by_empty_call=True,
    ),
    Peer(
        "ORT MatMulNBits int4",
        f"MatMulNBits: 4-bit weights in blocks of {_BLOCK}, accuracy level 4 (states to 8 bits in the call){_THEN}",
        _OUTPUT_LAYERS,
        _int4,
        exact=False,
        by_empty_call=True,
    ),
)
