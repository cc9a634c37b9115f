"""Output layers without a lookup: matrices that are only multiplied with hidden states.

A layer inside a model is the same product. An output layer differs in two ways: no later node multiplies with a matrix,
and it has more rows than columns.
"""

from collections.abc import Iterable, Iterator, Sequence

from edge_embed.compression.onnx.obstacles import numbers
from edge_embed.compression.onnx.scopes import Scope
from edge_embed.compression.onnx.table_uses import FLOAT_KINDS, Use, View
from edge_embed.fitting.worth import WORTH

_Node = tuple[int, int]  # identity of the scope, and the place in it


def output_layers(view: View, products: Sequence[Use], others: Iterable[Use]) -> Iterator[Use]:
    """Yield the products of output layers with at least 5 % of a file, the default share of `compress`.

    Args:
        view: the file.
        products: products with matrices without a lookup.
        others: lookups, and the products of their tables.
    """
    working = {(id(use.scope), use.place) for use in (*products, *others)}
    least = WORTH * view.file.numbers
    for use in products:
        rows, columns = use.known.shape[use.axis], use.known.shape[1 - use.axis]
        is_large = rows > columns and numbers(use) >= least
        if is_large and use.known.leaves and use.known.kind in FLOAT_KINDS and not _leads_to(view, use, working):
            yield use


def _leads_to(view: View, use: Use, others: set[_Node]) -> bool:
    """Return whether one of the others is computed from the result of a node."""
    waiting, seen = [(use.scope, use.node.output[0])], set[tuple[int, str]]()
    while waiting:
        scope, name = waiting.pop()
        if (id(scope), name) in seen:
            continue
        seen.add((id(scope), name))
        for inner, place, node in view.takers.get((id(scope), name), ()):
            bodies = [one for each in inner.inner if each.holder is node for one in each.walk()]
            if (id(inner), place) in others or any(_holds(body, others) for body in bodies):
                return True
            waiting += [(inner, output) for output in filter(None, node.output)]
        if scope.holder is not None and scope.outer is not None and name in {one.name for one in scope.graph.output}:
            waiting += [(scope.outer, output) for output in filter(None, scope.holder.output)]
    return False


def _holds(scope: Scope, nodes: set[_Node]) -> bool:
    return any((id(scope), place) in nodes for place in range(len(scope.nodes)))
