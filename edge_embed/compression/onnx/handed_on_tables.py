"""Tables that pass through a node before a lookup: a loop, a branch, a sequence or an optional.

Such a node may return another value instead, so these tables must stay dense.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from onnx import NodeProto

from edge_embed.compression.onnx.scopes import Scope, is_standard, spelled
from edge_embed.compression.onnx.table_uses import FLOAT_KINDS, Use, View
from edge_embed.fitting.worth import WORTH

_LOOKUPS = ("Gather", "GatherND", "GatherElements")
_CONTAINERS = ("SequenceConstruct", "SequenceInsert", "SequenceAt", "Optional", "OptionalGetElement")
_SHOWN = 3


@dataclass
class _Way:
    """The nodes that a constant passes through and reaches.

    Attributes:
        by: the nodes that pass it on.
        users: the nodes that compute with it, with their scopes and places.
    """

    by: list[NodeProto] = field(default_factory=list)
    users: list[tuple[Scope, int, NodeProto]] = field(default_factory=list)


def handed_on(view: View) -> Iterator[Use]:
    """Yield the lookups of each constant behind such a node, with the node as the reason to stay dense."""
    for scope in view.scopes:
        for name in scope.tensors:
            known = view.known(scope, name)
            if known is None or len(known.shape) < 2 or known.kind not in FLOAT_KINDS:
                continue
            if math.prod(known.shape) < WORTH * view.file.numbers:  # too small, such as initial states
                continue
            way = _way(view, scope, name)
            for user, place, node in way.users:
                if way.by and is_standard(node, *_LOOKUPS) and view.known(user, node.input[0]) is None:
                    yield Use("rows", user, place, node, known, 0, ids=node.input[1], reason=_reason(way))


def _reason(way: _Way) -> str:
    by, others = (", ".join(dict.fromkeys(map(spelled, nodes[:_SHOWN]))) for nodes in (way.by, _others(way)))
    also = f"; {others} also uses that result" if others else ""
    return (
        f"its lookups use a result of {by}, which may be another tensor{also}: look rows up in the constant itself, "
        "which branches and bodies can access by name"
    )


def _others(way: _Way) -> list[NodeProto]:
    return [node for _, _, node in way.users if not is_standard(node, *_LOOKUPS)]


def _way(view: View, scope: Scope, name: str) -> _Way:
    way, waiting, seen = _Way(), [(scope, name)], set[tuple[int, str]]()
    while waiting:
        scope, name = waiting.pop()
        if (id(scope), name) in seen:
            continue
        seen.add((id(scope), name))
        for inner, place, node in view.takers.get((id(scope), name), ()):
            bodies = [each for each in inner.inner if each.holder is node]
            if bodies or is_standard(node, *_CONTAINERS):
                way.by.append(node)
                waiting += [(inner, output) for output in node.output if output and not bodies]
                waiting += [(body, taken) for body in bodies for taken in _taken(node, body, name)]
            elif is_standard(node, "Identity"):
                waiting.append((inner, node.output[0]))
            else:
                way.users.append((inner, place, node))
        for body, result in _results(view, scope, name):
            if body.holder is not None and body.outer is not None:
                way.by.append(body.holder)
                waiting.append((body.outer, result))
    return way


def _taken(node: NodeProto, body: Scope, name: str) -> Iterator[str]:
    """Yield the names of a node's input inside the body of the node."""
    yield from (inside.name for given, inside in zip(node.input, body.graph.input, strict=False) if given == name)


def _results(view: View, scope: Scope, name: str) -> Iterator[tuple[Scope, str]]:
    """Yield the results of nodes that return a value from their bodies, with those bodies."""
    for body in view.scopes:
        if body.holder is None or body.owner(name) is not scope:
            continue
        first = 1 if is_standard(body.holder, "Loop") else 0  # the condition of the loop comes first
        for value, result in zip(body.graph.output[first:], body.holder.output, strict=False):
            if value.name == name and result:
                yield body, result
