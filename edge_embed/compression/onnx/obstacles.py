"""Reasons for a dense table to stay: it would be kept beside its packed form, or no packed table can replace it.

Tables that are cut out of one constant can be replaced together, because then nothing needs the constant.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edge_embed.compression.onnx.constant_values import Leaf, Place
from edge_embed.compression.onnx.scopes import Scope, is_standard, spelled
from edge_embed.compression.onnx.table_uses import Use, View

_SHARE = 4  # constants of less than a fourth of a table may stay beside its packed form
_FEWEST_BITS = 2  # per number in the file; a table with fewer would grow
_SHOWN = 3


@dataclass(frozen=True)
class Obstacle:
    """The reason why one table stays, or the tables to replace with it.

    Attributes:
        reason: the reason to stay; empty if the table can be replaced.
        company: indices of the tables that must be replaced with it.
    """

    reason: str = ""
    company: tuple[int, ...] = ()


def obstacles(view: View, found: Sequence[Sequence[Use]]) -> list[Obstacle]:
    """Return the obstacle of each table of a file."""
    alone = [_of_uses(uses) or _of_leaves(view, uses, uses) for uses in found]
    result = []
    for place, (reason, uses) in enumerate(zip(alone, found, strict=True)):
        company = _cut_out_together(found, place) if reason else [place]
        everything = [use for at in company for use in found[at]]
        is_free = len(company) > 1 and not any(
            _of_uses(found[at]) or _of_leaves(view, found[at], everything) for at in company
        )
        others = tuple(at for at in company if at != place) if is_free else ()
        result.append(Obstacle("" if is_free else _described(uses, reason), others))
    return result


def held_bytes(uses: Iterable[Use], among: Sequence[Sequence[Use]]) -> int:
    """Return the bytes of a table in the file; a constant that several tables are cut out of counts by its share."""
    own = [*uses]
    total = 0.0
    for leaf in dict.fromkeys(own[0].known.leaves):
        sharing = [numbers(each[0]) for each in among if leaf in each[0].known.leaves]
        total += leaf.nbytes * numbers(own[0]) / sum(sharing)
    return math.ceil(total)


def numbers(use: Use) -> int:
    """Return the number of elements of a table."""
    return math.prod(use.known.shape)


def _cut_out_together(found: Sequence[Sequence[Use]], place: int) -> list[int]:
    together, leaves, before = {place}, {leaf for use in found[place] for leaf in use.known.leaves}, 0
    while len(together) > before:
        before = len(together)
        for at, uses in enumerate(found):
            if at not in together and any(leaf in _large(uses) for leaf in leaves):
                together.add(at)
                leaves.update(_large(uses))
    return sorted(together)


def _large(uses: Sequence[Use]) -> list[Leaf]:
    leaves = [leaf for use in uses for leaf in use.known.leaves]
    most = max(leaf.nbytes for leaf in leaves)
    return [leaf for leaf in leaves if leaf.nbytes * _SHARE >= most]


def _of_uses(uses: Sequence[Use]) -> str:
    for use in uses:
        if use.reason:
            return use.reason
        if use.kind == "rows" and use.ids in use.scope.constants:
            return f"the ids of {spelled(use.node)} are constant, and so are its rows: fold them first"
    known = uses[0].known
    held = sum(leaf.nbytes for leaf in known.leaves)
    if 8 * held < _FEWEST_BITS * numbers(uses[0]) or (known.is_grown and held < numbers(uses[0])):
        return f"operators compute its {math.prod(known.shape):,} numbers from {held:,} bytes: it is already small"
    return ""


def _of_leaves(view: View, uses: Sequence[Use], everything: Sequence[Use]) -> str:
    """Return the user of the constants of a table besides its uses, or an empty string."""
    for leaf in (leaf for use in uses for leaf in use.known.leaves):
        if leaf.is_given:
            return f"{leaf.name} is also a model input, so a caller may replace it: remove it from the inputs"
    return next((why for leaf in _large(uses) if (why := _other_use(view, leaf, everything))), "")


def _other_use(view: View, leaf: Leaf, uses: Sequence[Use]) -> str:
    """Return the other user of a tensor, or an empty string."""
    done = {(id(use.scope), use.place) for use in uses}
    may_go = frozenset[Place]().union(*(use.names for use in uses))
    waiting, seen = [(leaf.scope, leaf.name)], set[Place]()
    while waiting:
        scope, name = waiting.pop()
        if (id(scope), name) in seen:
            continue
        seen.add((id(scope), name))
        if gives := _gives(view, scope, name):
            return f"{gives}: remove that output"
        for inner, place, node in view.takers.get((id(scope), name), ()):
            if (id(inner), place) in done:
                continue
            outputs = [one for one in filter(None, node.output) if view.is_taken(inner, one)]
            if not all((id(inner), output) in may_go for output in outputs):
                if given := next(
                    filter(None, (_gives(view, inner, one) for one in node.output if one in inner.constants)), ""
                ):
                    return f"{given}, through {spelled(node)}: remove that output"
                user = f"{_where(inner)}{spelled(node)}"
                return f"{user} also uses it: remove its other uses, or give them a constant of their own"
            waiting += [(inner, output) for output in outputs]
    return ""


def _gives(view: View, owner: Scope, name: str) -> str:
    for scope in view.scopes:
        if any(value.name == name for value in scope.graph.output) and scope.owner(name) is owner:
            return "it is an output of the model" if scope.outer is None else f"{_where(scope)}returns it"
    return ""


def _where(scope: Scope) -> str:
    return "" if scope.holder is None else f"a graph inside {spelled(scope.holder)}: "


def _described(uses: Sequence[Use], reason: str) -> str:
    """Return a reason with a description of the table, and the nodes that use it."""
    if not reason:
        return ""
    known, held = uses[0].known, sum(leaf.nbytes for leaf in uses[0].known.leaves)
    nodes = [spelled(use.node) for use in uses if use.kind != "shape"]
    shown = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    return f"{reason} ({known.dtype} {list(known.shape)} of {held:,} bytes, used by {shown})"


def shape_uses(view: View, scope: Scope, place: int, uses: Sequence[Use]) -> Iterable[Use]:
    """Yield the use of a node that reads only the sizes of a table."""
    node = scope.nodes[place]
    known = view.known(scope, node.input[0]) if is_standard(node, "Shape", "Size") and node.input else None
    if known is not None and any(known.names <= use.names for use in uses):
        yield Use("shape", scope, place, node, known, 0)
