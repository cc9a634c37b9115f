"""Output layers that share a table: products of hidden states with all its rows.

The nodes are of one of these forms; FusedMatMul and MatMulNBits are operators of com.microsoft.

    MatMul (hidden, transposed table)
    Gemm (hidden, table, bias)            transB = 1, or with the transposed table; times alpha and beta
    FusedMatMul (hidden, table)           like Gemm
    MatMulNBits (hidden, table in blocks, ...)
"""

from collections.abc import Iterator

from onnx import NodeProto

from edge_embed.compression.onnx.block_quantized import multiplied_blocks
from edge_embed.compression.onnx.products import product_of
from edge_embed.compression.onnx.scopes import Scope
from edge_embed.compression.onnx.table_uses import Use, View


def table_products(view: View, scope: Scope, place: int, node: NodeProto) -> Iterator[Use]:
    """Yield the product of a node, if its second factor is a constant matrix."""
    if node.domain == "com.microsoft" and node.op_type == "MatMulNBits":
        yield from multiplied_blocks(view, scope, place, node)
    product = product_of(node)
    known = None if product is None else view.known(scope, node.input[1])
    if product is None or known is None or len(known.shape) != 2 or 0 in known.shape:
        return
    yield Use("logits", scope, place, node, known, 0 if product.transposed else 1)
