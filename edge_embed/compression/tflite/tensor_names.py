"""Names of tensors: a file may omit them or repeat one, and then a name does not identify a tensor."""

from collections.abc import Iterable
from typing import Any

from edge_embed.compression.tflite.subgraph_calls import numbers


def free_name(wanted: str, taken: dict[str, int]) -> str:
    """Return a free name similar to ``wanted``, and mark it as used, with the number to continue from."""
    name, count = wanted, taken.get(wanted, 0)
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken[wanted] = count
    taken.setdefault(name, 0)
    return name


def name_tensors(model: Any) -> None:
    """Give each tensor of a subgraph a unique name: inputs keep theirs first, then outputs, then the others.

    Args:
        model: the model, as the classes of the schema.
    """
    for graph in model.subgraphs:
        taken: dict[str, int] = {}
        ports = (*numbers(graph.inputs), *numbers(graph.outputs))
        inputs = set(numbers(graph.inputs))
        for number in dict.fromkeys((*ports, *range(len(graph.tensors or ())))):
            tensor = graph.tensors[number]
            is_constant = model.buffers[tensor.buffer].data is not None
            kind = "input" if number in inputs else "constant" if is_constant else "tensor"
            tensor.name = free_name((tensor.name or b"").decode() or kind, taken).encode()


def ambiguous_names(graphs: Iterable[Any]) -> set[str]:
    """Return the names that tensors of several subgraphs have."""
    seen, found = set[str](), set[str]()
    for graph in graphs:
        own = {tensor.name.decode() for tensor in graph.tensors or ()}
        found |= own & seen
        seen |= own
    return found
