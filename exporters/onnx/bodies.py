"""All node types of the domain, and the portable bodies that a model with such nodes needs."""

from collections.abc import Iterable

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.ant import ANT
from edge_embed.exporters.onnx.dpq import DPQ, SCALED_DPQ
from edge_embed.exporters.onnx.method import OnnxMethod, OnnxOperator
from edge_embed.exporters.onnx.tt import ORDERED_TT, TT

METHODS: tuple[OnnxMethod, ...] = (ANT, DPQ, SCALED_DPQ, TT, ORDERED_TT)
OPERATORS = {operator.op_type: operator for method in METHODS for operator in method.uses}

Body = tuple[OnnxOperator, int]  # a node type, and how many packed tensors its nodes take


def needed_bodies(nodes: Iterable[Body]) -> list[Body]:
    """The functions that nodes need, and those that these call, each once.

    Raises:
        BadInputError: if nodes of one type take different numbers of tensors.
    """
    found: dict[str, Body] = {}
    for operator, count in nodes:
        for body in (*operator.called(count), (operator, count)):
            check_count(*body, found.setdefault(body[0].op_type, body)[1])
    return list(found.values())


def check_count(operator: OnnxOperator, count: int, other: int) -> None:
    """Refuse a second number of tensors: a function has one signature, and all nodes of a type share one."""
    if count != other:
        method = operator.method
        raise BadInputError(
            f"{method.name} tables: got some of {min(count, other)} and some of {max(count, other)} {method.parts}, "
            f"expected one number of {method.parts} in a model, since they share one portable body: {method.remedy}"
        )
