"""Outputs that depend on float16: their tolerance is that of its 11 bits, even if weights are float32."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.program.program import Program, ProgramInterpreter

_HALF = torch.float16


def half_outputs(program: Program) -> tuple[str, ...]:
    """Return names of outputs that depend on float16 inputs or computations, for example by ``torch.autocast``."""
    graph: fx.Graph = program.module.graph
    inputs = {declared.name for declared in program.inputs if declared.dtype == _HALF}
    narrow = _computed(program) if any(weight.dtype == _HALF for weight in program.module.buffers()) else set()
    for node in graph.nodes:
        if node.name in inputs or _HALF in _literals(node) or any(each in narrow for each in node.all_input_nodes):
            narrow.add(node)
    (results,) = next(node for node in graph.nodes if node.op == "output").args
    return tuple(name for name, node in zip(program.output_names, results, strict=True) if node in narrow)


class _Computed(ProgramInterpreter):
    """Runs the program and keeps the operators with results in float16, such as those of float16 weights."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.module)
        self.nodes: set[fx.Node] = set()

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, Tensor) and result.dtype == _HALF:
            self.nodes.add(n)
        return result


def _computed(program: Program) -> set[fx.Node]:
    interpreter = _Computed(program)
    with torch.no_grad():
        interpreter.run(*program.example_inputs)
    return interpreter.nodes


def half_scales(program: Program) -> dict[str, float]:
    """Return the root mean square of each such output for the example, at least 1.

    Where summands cancel, the error of a sum in float16 is that of the summands, which are as large as other outputs.
    """
    names = half_outputs(program)
    if not names:
        return {}
    found = dict(zip(program.output_names, program.run(*program.example_inputs), strict=True))
    squares = {name: float(found[name].double().square().mean()) for name in names}
    return {name: max(1.0, square**0.5) if math.isfinite(square) else 1.0 for name, square in squares.items()}


def _literals(node: fx.Node) -> Iterator[Any]:
    found: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), found.append)
    return iter(found)
