"""Outputs that depend on float16: their tolerance is that of its 11 bits, even if weights are float32."""

import math
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.program.program import Program, ProgramInterpreter
from edge_embed.steps import step

_HALF = torch.float16


def half_scales(program: Program) -> dict[str, float]:
    """Return by name the root mean square, at least 1, of outputs of the example that depend on float16.

    They depend on it through inputs, weights or computations, for example by ``torch.autocast``. Where summands cancel,
    the error of a sum in float16 is that of the summands, which are as large as other outputs.
    """
    has_weights = any(weight.dtype == _HALF for weight in program.module.buffers())
    inputs = {declared.name for declared in program.inputs if declared.dtype == _HALF}
    narrow = {node for node in program.module.graph.nodes if node.name in inputs or _holds_half(node)}
    if not narrow and not has_weights:
        return {}
    example = _Example(program)
    with torch.no_grad(), step("the training form runs"):
        outputs = example.run(*program.example_inputs)
    narrow |= example.narrow
    for node in program.module.graph.nodes:
        if any(each in narrow for each in node.all_input_nodes):
            narrow.add(node)
    (results,) = next(node for node in program.module.graph.nodes if node.op == "output").args
    found = zip(program.output_names, results, outputs, strict=True)
    squares = {name: float(output.double().square().mean()) for name, node, output in found if node in narrow}
    return {name: max(1.0, square**0.5) if math.isfinite(square) else 1.0 for name, square in squares.items()}


class _Example(ProgramInterpreter):
    """Runs the program and keeps the operators with results in float16, such as those of float16 weights."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.module)
        self.narrow: set[fx.Node] = set()

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, Tensor) and result.dtype == _HALF:
            self.narrow.add(n)
        return result


def _holds_half(node: fx.Node) -> bool:
    """Return whether an argument of the node is the type float16."""
    literals: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), literals.append)
    return _HALF in literals
