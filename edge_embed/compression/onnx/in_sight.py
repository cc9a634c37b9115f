"""The uses of each table of a file: all nodes that use the same bits, in any shape."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from edge_embed.compression.onnx.handed_on_tables import handed_on
from edge_embed.compression.onnx.lookups import gathers
from edge_embed.compression.onnx.obstacles import shape_uses
from edge_embed.compression.onnx.one_hot import products
from edge_embed.compression.onnx.output_layers import output_layers
from edge_embed.compression.onnx.scopes import Scope
from edge_embed.compression.onnx.table_products import table_products
from edge_embed.compression.onnx.table_uses import Use, View

_LOOKUPS: tuple[Callable[[View, Scope, int, NodeProto], Iterator[Use]], ...] = (gathers, products)
_BLOCK_NUMBERS = 1 << 22


def uses_in_sight(view: View) -> list[list[Use]]:
    """Return the uses of each table whose lookups are nodes of the graph or of inner graphs; output layers are last."""
    nodes = [
        (scope, place, node)
        for scope in view.scopes
        for place, node in enumerate(scope.nodes)
        if view.is_needed(scope, place)
    ]
    lookups = [use for at in nodes for rule in _LOOKUPS for use in rule(view, *at) if use.ids]
    lookups += handed_on(view)
    parts = {place for use in lookups for place in use.passed}  # scales, whose rows belong to those of codes
    found: list[list[Use]] = []
    for use in lookups:
        if (id(use.scope), use.node.output[0]) not in parts:
            _place(found, use)
    taken = {(id(use.scope), use.place) for use in lookups}
    products = [use for at in nodes if (id(at[0]), at[1]) not in taken for use in table_products(view, *at)]
    untied = [use for use in products if not _place(found, use, alone=False)]
    for use in output_layers(view, untied, (use for uses in found for use in uses)):
        _place(found, use)
    for at in nodes:
        for uses in found:
            uses.extend(shape_uses(view, *at[:2], uses))
    return found


def _place(found: list[list[Use]], use: Use, alone: bool = True) -> bool:
    """Add a use to those of the same table, or as a new table if ``alone``; return whether it was added."""
    for uses in found:
        for mine, other in _pairs(uses[0], use):
            if _is_same(mine, other):
                if mine is not uses[0]:
                    uses[:] = [_uncast(one) or one for one in uses]
                uses.append(other)
                return True
    if alone and use.known.leaves:  # a table without leaves is computed from no tensor of the file
        found.append([use])
        return True
    return False


def _pairs(one: Use, other: Use) -> Iterator[tuple[Use, Use]]:
    """Yield two uses, and variants in which one refers to its table before a cast to another type."""
    yield one, other
    if (wide := _uncast(other)) is not None:
        yield one, wide
    if (wide := _uncast(one)) is not None:
        yield wide, other


def _uncast(use: Use) -> Use | None:
    before = use.known.before_cast
    if before is None or use.reason:
        return None
    return replace(use, known=before, kind_of_result=use.known.kind, passed=use.passed | use.known.names)


def _is_same(one: Use, other: Use) -> bool:
    sizes = [(use.known.kind, use.known.shape[use.axis], width(use)) for use in (one, other)]
    if sizes[0] != sizes[1] or one.reason or other.reason:
        return sizes[0] == sizes[1] and one.known is other.known and one.axis == other.axis
    if one.known is other.known and one.axis == other.axis:
        return True
    mine, others = (use.known.matrix(use.axis) for use in (one, other))
    rows = max(1, _BLOCK_NUMBERS // max(1, mine.shape[1]))
    return all(
        np.array_equal(_bits(mine[at : at + rows]), _bits(others[at : at + rows])) for at in range(0, len(mine), rows)
    )


def _bits(block: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(block).view(np.uint8)


def width(use: Use) -> int:
    """Return the number of elements of a row."""
    return int(np.prod([*use.lead, *use.trail], dtype=np.int64))
