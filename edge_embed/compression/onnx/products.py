"""Products with a matrix: MatMul, Gemm, and FusedMatMul of com.microsoft, which ONNX Runtime makes of them.

result = alpha * (a @ b) + beta * c        b turned round or not, c by Gemm alone
"""

from dataclasses import dataclass

from onnx import NodeProto

from edge_embed.compression.onnx.scopes import is_standard
from edge_embed.compression.onnx.table_uses import values_of

_TURNS_A = ("transA", "transBatchA", "transBatchB")


@dataclass(frozen=True)
class Product:
    """What is done with a matrix.

    Attributes:
        turned: whether its columns are multiplied with, not its rows.
        alpha: what the product is multiplied with.
        beta: what is added is multiplied with this.
        added: name of what is added; empty for nothing.
    """

    turned: bool
    alpha: float = 1.0
    beta: float = 1.0
    added: str = ""


def product_of(node: NodeProto) -> Product | None:
    """The product that a node is, of its first input as it is with its second one."""
    is_fused = node.domain == "com.microsoft" and node.op_type == "FusedMatMul"
    if not (is_fused or is_standard(node, "MatMul", "Gemm")) or len(node.input) < 2:
        return None
    values = values_of(node)
    if any(values.get(name, 0) for name in _TURNS_A):
        return None
    turned, alpha = bool(values.get("transB", 0)), float(values.get("alpha", 1))
    if node.op_type != "Gemm":
        return Product(turned, alpha)
    added = node.input[2] if len(node.input) > 2 else ""
    return Product(turned, alpha, float(values.get("beta", 1)), added)
