"""Rotation of the rows of a packed table in the graph of a program.

    rows = P R                          a product beside a lookup or a bag of sums or means
    logits = (h R^T) P^T                before an output layer
    (P R) W^T = P (W R^T)^T             no product: if one layer is the only user of all rows, its weight W [m, d] is
    rotated

The layer is a linear or a recurrent one. Copies, which dropout in a saved model becomes, may lie between table and
layer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.ops.recurrent import OPERATORS as RECURRENT

_ATEN = torch.ops.aten
_HAS_BIASES, _IS_BIDIRECTIONAL = 3, 7  # positions of a recurrent operator's arguments
_WEIGHTS = 2  # weights of one direction of a layer: of input and of state


def next_weights(rows: fx.Node) -> Sequence[fx.Node]:
    """Return the weights [m, d] of the only layer that takes these rows, or none."""
    taken = list(_takers(rows))
    return taken[0] or [] if len(taken) == 1 else []


def rotatable_weights(rows: fx.Node) -> list[str]:
    """Return the names of the weights that a rotation of these rows can be folded into, or none."""
    weights = next_weights(rows)
    is_own = all(weight.op == "get_attr" and len(weight.users) == 1 for weight in weights)
    return [str(weight.target) for weight in weights] if is_own else []


def rotated_weight(weight: Tensor, rotation: Tensor) -> Tensor:
    """Return W R^T for W [m, d]."""
    return (weight.double() @ rotation.double().T).to(weight.dtype)


def rotated(graph: fx.Graph, rows: fx.Node, rotation: fx.Node, dtype: torch.dtype, is_hidden: bool = False) -> fx.Node:
    """Return rows P R, or hidden states h R^T for an output layer, computed in float32 and converted to ``dtype``.

    Args:
        graph: graph to which the nodes are added.
        rows: P or h [*, d].
        rotation: R [d, d], float32 or float16.
        dtype: dtype of the result.
        is_hidden: whether they are hidden states.
    """
    wide = torch.promote_types(dtype, torch.float32)
    left, right = (graph.call_function(_ATEN.to.dtype, (node, wide)) for node in (rows, rotation))
    if is_hidden:
        right = graph.call_function(_ATEN.t.default, (right,))
    product = graph.call_function(_ATEN.matmul.default, (left, right))
    return product if dtype == wide else graph.call_function(_ATEN.to.dtype, (product, dtype))


def _takers(rows: fx.Node) -> Iterator[Sequence[fx.Node] | None]:
    """Yield for each user of the rows the weights that multiply them; None for any other use."""
    for user in rows.users:
        if user.target == _ATEN.sym_size.int:
            continue
        if user.target == _ATEN.clone.default:
            yield from _takers(user)
        elif user.target == _ATEN.linear.default and user.args[0] is rows and rows not in user.args[1:]:
            yield [user.args[1]]  # type: ignore[list-item]  # a weight
        elif user.target in RECURRENT.values() and user.args[0] is rows:
            yield _first_weights(user.args)
        else:
            yield None


def _first_weights(args: tuple[Any, ...]) -> list[fx.Node]:
    """Return the input weights of the first layer of a recurrent operator, one for each direction."""
    each = 2 * _WEIGHTS if args[_HAS_BIASES] else _WEIGHTS
    directions = 2 if args[_IS_BIDIRECTIONAL] else 1
    return [args[2][each * direction] for direction in range(directions)]
