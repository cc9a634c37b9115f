"""All node types of the domain, and the portable bodies that a model with such nodes needs."""

from collections.abc import Iterable

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.method import OnnxMethod, OnnxOperator
from edge_embed.methods import Collected, Parts
from edge_embed.ops.operators import TableOperators

METHODS: Parts[tuple[OnnxMethod, ...]] = Parts("onnx")
OPERATORS: Collected[str, OnnxOperator] = Collected(
    lambda: (
        (operator.op_type, operator) for methods in METHODS.values() for method in methods for operator in method.uses
    )
)

Body = tuple[OnnxOperator, int]  # a node type, and the number of packed tensors of its nodes


def method_of(operators: TableOperators) -> OnnxMethod:
    """Return the nodes for torch operators over packed tensors."""
    return next(operator.method for operator in OPERATORS.values() if operator.method.operators is operators)


def needed_bodies(nodes: Iterable[Body]) -> list[Body]:
    """Return the functions that nodes need, and those that these call, each once.

    Raises:
        BadInputError: nodes of one type have different numbers of tensors.
    """
    found: dict[str, Body] = {}
    for operator, count in nodes:
        for body in (*operator.called(count), (operator, count)):
            check_count(*body, found.setdefault(body[0].op_type, body)[1])
    return list(found.values())


def check_count(operator: OnnxOperator, count: int, other: int) -> None:
    """Refuse a second number of tensors: a function has one signature, which all nodes of a type share."""
    if count != other:
        method = operator.method
        raise BadInputError(
            f"{method.name} tables: got tables of {min(count, other)} and of {max(count, other)} {method.parts}, "
            f"expected the same number in a model, because all tables share one portable body: {method.remedy}"
        )
