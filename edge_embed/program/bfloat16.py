"""Conversion of a program from bfloat16 to float32: CPU runtimes have hardly any bfloat16 kernels.

Every bfloat16 number is a float32 number, so weights stay the same; results are rounded less often.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.program.program import Program, ProgramInput, ProgramModule
from edge_embed.report.results.widened_bfloat16 import Widened

_NARROW, _WIDE = torch.bfloat16, torch.float32


def in_float32(program: Program) -> Program:
    """Return the program with float32 in place of bfloat16: weights, inputs, outputs and everything between.

    Args:
        program: it is not changed, and is returned as it is without bfloat16.

    Raises:
        BadInputError: if it reads the bits of a bfloat16 number as another type.
    """
    weights = {str(node.target): program.module.weight(str(node.target)) for node in _weights_of(program.module.graph)}
    narrow = {name: 2 * tensor.nbytes for name, tensor in weights.items() if tensor.dtype == _NARROW}
    inputs = tuple(declared.name for declared in program.inputs if declared.dtype == _NARROW)
    calls = [node for node in program.module.graph.nodes if _names_bfloat16(node)]
    widened = Widened(narrow, inputs, len(calls))
    if not widened:
        return program
    module = ProgramModule(_widened_graph(program.module.graph), {name: _wide(weights[name]) for name in weights})
    return replace(
        program,
        module=module,
        inputs=tuple(_widened_input(declared) for declared in program.inputs),
        example_inputs=tuple(_wide(example) for example in program.example_inputs),
        widened=widened,
    )


def _weights_of(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "get_attr"]


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == _NARROW else tensor


def _widened_input(declared: ProgramInput) -> ProgramInput:
    return replace(declared, dtype=_WIDE) if declared.dtype == _NARROW else declared


def _names_bfloat16(node: fx.Node) -> bool:
    found: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), found.append)
    return _NARROW in found


def _widened_graph(source: fx.Graph) -> fx.Graph:
    graph = fx.Graph()
    graph.output(graph.graph_copy(source, {}))
    for node in graph.nodes:
        if node.target == torch.ops.aten.view.dtype:
            raise BadInputError(
                "the model is in bfloat16 and reinterprets bits as another type by Tensor.view(dtype): remove that "
                "view, and call model.float() before saving"
            )
        node.args, node.kwargs = fx.node.map_aggregate((node.args, node.kwargs), _widened_argument)
    return graph


def _widened_argument(value: Any) -> Any:
    return _WIDE if value is _NARROW else value
