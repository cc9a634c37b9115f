"""A traced decoder with the logits of all positions, in place of those of the last one.

The trace of a decoder with keys and values selects the last position by slices, in front of the output layer or behind
it. The decoder without these slices reads a text in one call instead of token by token.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, fx

from edge_embed.program.program import Program, ProgramModule

_TOKENS = 5  # of the prompt on which both forms are compared
_PAST_THE_END = 1 << 62
_ROUNDING = 1e-4  # of the largest logit


def with_all_positions(program: Program, logits: int, prompt: tuple[Tensor, ...]) -> Program:
    """Return the program with the logits of all positions, or the program itself if it is not known how.

    Args:
        program: the decoder; it is not changed.
        logits: position of the logits among the outputs.
        prompt: inputs of a prompt, on which the last logits of both forms must agree.
    """
    outputs = next(iter(program.module.graph.find_nodes(op="output"))).args[0]
    nodes = [node for node in outputs if isinstance(node, fx.Node)]
    others = _sources([node for at, node in enumerate(nodes) if at != logits])
    dropped = {node for node in _sources([nodes[logits]]) - others if _selects_last(node)}
    if not dropped:
        return program
    copies: dict[fx.Node, fx.Node] = {}
    graph = fx.Graph()
    for node in program.module.graph.nodes:
        source = node.all_input_nodes[0] if node in dropped else None
        copies[node] = graph.node_copy(node, copies.__getitem__) if source is None else copies[source]
    names = [str(node.target) for node in graph.find_nodes(op="get_attr")]
    module = ProgramModule(graph, {name: program.module.weight(name) for name in dict.fromkeys(names)})
    whole = replace(program, module=module)
    return whole if _agree(program, whole, logits, prompt) else program


def _agree(program: Program, whole: Program, logits: int, prompt: tuple[Tensor, ...]) -> bool:
    """Return whether the last of all logits are those of the program."""
    expected = program.run(*prompt)[logits]
    try:
        found = whole.run(*prompt)[logits]
    except Exception:  # whatever operators do with other sizes
        return False
    is_last = found.ndim == 3 and found[:, -1:].shape == expected.shape and found.shape[1] > 1
    limit = _ROUNDING * float(expected.abs().max())
    return is_last and torch.allclose(found[:, -1:], expected, rtol=0, atol=limit, equal_nan=True)


def _sources(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return nodes and all nodes that they are computed from."""
    waiting, seen = list(nodes), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.all_input_nodes
    return seen


def _selects_last(node: fx.Node) -> bool:
    """Return whether a node is ``x[:, -1:]``."""
    if node.target != torch.ops.aten.slice.Tensor or node.kwargs:
        return False
    _, dim, start, end, step = (*node.args, 1)[:5] if len(node.args) >= 4 else (*node.args, *(None,) * 5)[:5]
    return (dim, start, step) == (1, -1, 1) and isinstance(end, int) and end > _PAST_THE_END
