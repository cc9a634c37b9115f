"""Dimensions of inputs and outputs: their names in the file."""

from collections.abc import Iterator

import onnx_ir as ir

from edge_embed.program.program import Program
from edge_embed.program.size_sums import PLUS


def rename_dimensions(model: ir.Model, program: Program) -> None:
    """Rename dimensions everywhere to names such as ``batch`` instead of ``s77``.

    A sum gets the name of the input dimension with equal terms; other derived sizes become unnamed.
    """
    names: dict[str, str] = {}
    for value, declared in zip(model.graph.inputs, program.inputs, strict=True):
        for size, name in zip(value.shape or (), declared.shape, strict=True):
            if isinstance(size, ir.SymbolicDim) and isinstance(name, str):
                names[str(size.value)] = name
    sums = {frozenset(name.split(PLUS)): name for name in names.values()}

    def named(size: str) -> str | None:
        return names.get(size) or sums.get(frozenset(names.get(term, "") for term in size.split(PLUS)))

    for value in values_of(model):
        if value.shape is not None:  # a new one, because several values may share one, which would then be frozen
            sizes = [named(str(size.value)) if isinstance(size, ir.SymbolicDim) else size for size in value.shape]
            value.shape = ir.Shape(sizes)


def values_of(model: ir.Model) -> Iterator[ir.Value]:
    """Yield inputs, and results of nodes of the graph."""
    yield from model.graph.inputs
    for node in model.graph:
        yield from node.outputs


def dimensions_of(model: ir.Model, kind: type[int] | type[str]) -> dict[str, list[str]]:
    """Return the dimensions of inputs and outputs, by name: fixed (``int``) or dynamic (``str``) ones, in words."""
    found: dict[str, list[str]] = {}
    for value in [*model.graph.inputs, *model.graph.outputs]:
        sizes = [size if isinstance(size, int) else str(size.value or "derived") for size in value.shape or ()]
        found[str(value.name)] = [str(size) for size in sizes if isinstance(size, kind)]
    return found
