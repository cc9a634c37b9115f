"""Description of a file without lookups: its largest constants, and the operators that use them."""

from edge_embed.compression.onnx.constant_values import Known
from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.scopes import spelled
from edge_embed.compression.onnx.table_uses import View

_SHOWN = 3
_LOOKUPS = "Gather, GatherND, GatherElements, OneHot and MatMul, GatherBlockQuantized or EmbedLayerNormalization"


def largest_constants(file: ForeignModel) -> str:
    """Return a sentence for a file without a table: its largest constants, and the remedy."""
    return (
        f"no constant is looked up by {_LOOKUPS}; {listed_constants(View(file))}: look rows up with one of these "
        "operators; compress an output layer alone by name (--module) in the model before export"
    )


def listed_constants(view: View) -> str:
    """Return the largest constants of a file, their sizes, and the operators that use them."""
    found = [
        (known.leaves[0].nbytes, name, known, id(scope))
        for scope in view.scopes
        for name in scope.tensors
        if (known := view.known(scope, name)) is not None and len(known.shape) > 1
    ]
    found.sort(key=lambda each: (-each[0], each[1]))
    listed = "; ".join(_line(view, name, known, scope) for _, name, known, scope in found[:_SHOWN])
    return (
        f"the largest of its {len(found)} constants are {listed}"
        if found
        else "it has no constant of two or more dimensions"
    )


def _line(view: View, name: str, known: Known, scope: int) -> str:
    takers = view.takers.get((scope, name), [])
    used = ", ".join(spelled(node) for _, _, node in takers[:_SHOWN]) or _given(view, name, scope)
    return f"{name!r:.100} {known.dtype} {list(known.shape)} of {known.leaves[0].nbytes:,} bytes, used by {used}"


def _given(view: View, name: str, place: int) -> str:
    """Return the user of a constant without a node as user: the node whose body returns it."""
    scope = next(scope for scope in view.scopes if id(scope) == place)
    if scope.holder is None or all(value.name != name for value in scope.graph.output):
        return "nothing"
    return f"{spelled(scope.holder)}, as a result of its body"
