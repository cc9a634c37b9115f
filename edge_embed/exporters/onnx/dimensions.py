"""Dimensions of inputs and outputs: how they are called in the file."""

from collections.abc import Iterator

import onnx_ir as ir

from edge_embed.program.program import Program


def rename_dimensions(model: ir.Model, program: Program) -> None:
    """``batch`` and ``sequence`` instead of ``s77`` and ``s27``, everywhere; derived sizes become unnamed."""
    names: dict[str, str] = {}
    for value, declared in zip(model.graph.inputs, program.inputs, strict=True):
        for size, name in zip(value.shape or (), declared.shape, strict=True):
            if isinstance(size, ir.SymbolicDim) and isinstance(name, str):
                names[str(size.value)] = name
    for value in values_of(model):
        if value.shape is not None:  # a new one, for several values may share one, which is frozen then
            sizes = [names.get(str(size.value)) if isinstance(size, ir.SymbolicDim) else size for size in value.shape]
            value.shape = ir.Shape(sizes)


def values_of(model: ir.Model) -> Iterator[ir.Value]:
    """Inputs, and what nodes of the graph make."""
    yield from model.graph.inputs
    for node in model.graph:
        yield from node.outputs


def dimensions_of(model: ir.Model, kind: type[int] | type[str]) -> dict[str, list[str]]:
    """Of inputs and outputs, by name: those that are fixed (``int``) or dynamic (``str``), in words."""
    found: dict[str, list[str]] = {}
    for value in [*model.graph.inputs, *model.graph.outputs]:
        sizes = [size if isinstance(size, int) else str(size.value or "derived") for size in value.shape or ()]
        found[str(value.name)] = [str(size) for size in sizes if isinstance(size, kind)]
    return found
