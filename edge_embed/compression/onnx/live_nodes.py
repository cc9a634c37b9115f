"""Nodes that affect the outputs of a model; other nodes may use a table and are removed with it."""

from collections.abc import Sequence

from edge_embed.compression.onnx.scopes import Scope


def needed_nodes(scopes: Sequence[Scope]) -> set[tuple[int, int]]:
    """Return the identities of scopes and the places in them of all nodes that an output depends on.

    A graph inside a node is needed if the node is.

    Args:
        scopes: all scopes of a model, that of its graph first.
    """
    needed: set[tuple[int, int]] = set()
    inside: dict[tuple[int, int], list[Scope]] = {}
    for scope in scopes:
        places = {id(node): place for place, node in enumerate(scope.nodes)}
        for inner in scope.inner:
            inside.setdefault((id(scope), places[id(inner.holder)]), []).append(inner)
    waiting = [(scopes[0], value.name) for value in scopes[0].graph.output]
    while waiting:
        scope, name = waiting.pop()
        owner = scope.owner(name) if name else None
        if owner is None or name not in owner.makers:
            continue
        place = owner.makers[name][0]
        if (id(owner), place) in needed:
            continue
        needed.add((id(owner), place))
        waiting += [(owner, given) for given in owner.nodes[place].input]
        for inner in inside.get((id(owner), place), ()):
            waiting += [(inner, value.name) for value in inner.graph.output]
    return needed
