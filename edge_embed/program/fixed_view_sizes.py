"""Sizes of views that torch infers at run time: those that are fixed become numbers.

``view(batch, length, -1, 64)`` has no answer for an empty sequence, neither in torch nor in a runtime, even if the
trace knows the size.
"""

from torch import fx

_VIEWS = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
_INFERRED = -1


def fix_view_sizes(graph: fx.Graph) -> None:
    """Replace each inferred size of a view by the size that the trace knows, if it is fixed."""
    for node in graph.nodes:
        if node.op != "call_function" or str(node.target) not in _VIEWS or _INFERRED not in (sizes := [*node.args[1]]):
            continue
        at = sizes.index(_INFERRED)
        known = node.meta["val"].shape[at]
        if isinstance(known, int):
            node.update_arg(1, [*sizes[:at], known, *sizes[at + 1 :]])
