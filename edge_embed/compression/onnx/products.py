"""Products with a matrix: MatMul, Gemm, and FusedMatMul of com.microsoft, which ONNX Runtime creates from them.

result = alpha * (a @ b) + beta * c        b may be transposed; only Gemm has c
"""

from dataclasses import dataclass

from onnx import NodeProto

from edge_embed.compression.onnx.scopes import is_standard
from edge_embed.compression.onnx.table_uses import values_of

_TURNS_A = ("transA", "transBatchA", "transBatchB")


@dataclass(frozen=True)
class Product:
    """The product of a node.

    Attributes:
        transposed: whether the second factor is transposed.
        alpha: factor of the product.
        beta: factor of the added value.
        added: name of the added value, or empty.
    """

    transposed: bool
    alpha: float = 1.0
    beta: float = 1.0
    added: str = ""


def product_of(node: NodeProto) -> Product | None:
    """Return the product of a node, whose first input must not be transposed, or None."""
    is_fused = node.domain == "com.microsoft" and node.op_type == "FusedMatMul"
    if not (is_fused or is_standard(node, "MatMul", "Gemm")) or len(node.input) < 2:
        return None
    values = values_of(node)
    if any(values.get(name, 0) for name in _TURNS_A):
        return None
    transposed, alpha = bool(values.get("transB", 0)), float(values.get("alpha", 1))
    if node.op_type != "Gemm":
        return Product(transposed, alpha)
    added = node.input[2] if len(node.input) > 2 else ""
    return Product(transposed, alpha, float(values.get("beta", 1)), added)
