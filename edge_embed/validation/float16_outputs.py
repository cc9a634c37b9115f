"""Outputs that depend on float16: their tolerance is that of its 11 bits, even if weights are float32."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from edge_embed.program.program import Program

_HALF = torch.float16


def half_outputs(program: Program) -> tuple[str, ...]:
    """Return names of outputs that depend on float16 inputs or computations, for example by ``torch.autocast``."""
    graph: fx.Graph = program.module.graph
    inputs = {declared.name for declared in program.inputs if declared.dtype == _HALF}
    narrow: set[fx.Node] = set()
    for node in graph.nodes:
        if node.name in inputs or _HALF in _literals(node) or any(each in narrow for each in node.all_input_nodes):
            narrow.add(node)
    (results,) = next(node for node in graph.nodes if node.op == "output").args
    return tuple(name for name, node in zip(program.output_names, results, strict=True) if node in narrow)


def _literals(node: fx.Node) -> Iterator[Any]:
    found: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), found.append)
    return iter(found)
