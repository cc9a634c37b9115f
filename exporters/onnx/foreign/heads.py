"""Output layers that share a table: products of hidden states with all its rows.

MatMul (hidden, table turned round)
Gemm (hidden, table, bias), transB = 1, or with the table turned round
MatMulNBits (hidden, table in blocks, ...) of com.microsoft
"""

from collections.abc import Iterator

from onnx import NodeProto

from edge_embed.exporters.onnx.foreign.block_quantized import multiplied_blocks
from edge_embed.exporters.onnx.foreign.scopes import Scope, is_standard
from edge_embed.exporters.onnx.foreign.uses import Use, View, values_of


def heads(view: View, scope: Scope, place: int, node: NodeProto) -> Iterator[Use]:
    """The product of a node, if its second factor is a matrix that is known."""
    if node.domain == "com.microsoft" and node.op_type == "MatMulNBits":
        yield from multiplied_blocks(view, scope, place, node)
    if not is_standard(node, "MatMul", "Gemm") or len(node.input) < 2:
        return
    known = view.known(scope, node.input[1])
    if known is None or len(known.shape) != 2 or 0 in known.shape:
        return
    if node.op_type == "Gemm" and not is_plain(node):
        return
    yield Use("logits", scope, place, node, known, 0 if values_of(node).get("transB", 0) else 1)


def is_plain(gemm: NodeProto) -> bool:
    """Whether a Gemm multiplies and adds, nothing more."""
    values = values_of(gemm)
    factors = [values.get("alpha", 1)] + ([values.get("beta", 1)] if any(gemm.input[2:]) else [])
    return not values.get("transA", 0) and all(factor == 1 for factor in factors)
