"""Traces again where a trace holds for an example's size of 1 alone, though that dimension is dynamic.

Rows of a table of positions [T, d] added to those of ids [1, T] are one reason: torch 2.13 decides that the batch is 1
to broadcast them. The nodes are right for every batch then, but their shapes are not, and ONNX Runtime warns of them in
every run. With two examples in place of one nothing has to be decided.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from edge_embed.errors import BadInputError

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def traced_at_any_size(
    trace: Callable[[tuple[Any, ...], dict[str, Any]], ExportedProgram],
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ExportedProgram:
    """Return the trace of the example, or that of a larger one where it alone holds for more than sizes of 1.

    Args:
        trace: of positional and keyword inputs.
        model: what is traced, in eval mode.
        args: positional inputs of the example.
        kwargs: keyword inputs of the example.
    """
    program = trace(args, kwargs)
    limited = _limited(program)
    if not any(limited):
        return program
    try:
        larger = trace(*_doubled(args, kwargs, limited))
    except BadInputError:
        return program
    is_same = (
        _is_dynamic(larger, program) and not any(_limited(larger)) and _gives_the_same(larger, model, args, kwargs)
    )
    if not is_same:
        return program
    larger.example_inputs = _copied(args, kwargs)
    return larger


def _input_shapes(program: ExportedProgram) -> list[Sequence[Any]]:
    """The shape of each input in order; empty of what is no tensor."""
    names = set(program.graph_signature.user_inputs)
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    return [tuple(value.shape) if isinstance(value, Tensor) else () for value in values]


def _limited(program: ExportedProgram) -> list[list[int]]:
    """The dynamic dimensions of each input that may be 1 or 2 at most."""
    ranges = {str(symbol): found.upper for symbol, found in program.range_constraints.items()}
    return [
        [at for at, size in enumerate(shape) if isinstance(size, torch.SymInt) and ranges.get(str(size), 3) <= 2]
        for shape in _input_shapes(program)
    ]


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The example in new tensors: torch notes on those that it traces what is dynamic."""
    copied: Arguments = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
    return copied


def _doubled(args: tuple[Any, ...], kwargs: dict[str, Any], limited: Sequence[Sequence[int]]) -> Arguments:
    """Copies of the example, twice along these dimensions of its inputs."""
    leaves, tree = pytree.tree_flatten(_copied(args, kwargs))
    for at, dimensions in enumerate(limited):
        for dimension in dimensions:
            leaves[at] = torch.cat((leaves[at], leaves[at]), dimension)
    doubled: Arguments = pytree.tree_unflatten(leaves, tree)
    return doubled


def _is_dynamic(larger: ExportedProgram, program: ExportedProgram) -> bool:
    """Whether every size that is dynamic in one is so in the other."""
    kinds = (
        [[isinstance(size, torch.SymInt) for size in shape] for shape in _input_shapes(one)]
        for one in (larger, program)
    )
    first, second = kinds
    return first == second


@torch.no_grad()
def _gives_the_same(larger: ExportedProgram, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether outputs of the example itself have the shapes of the model, which may treat a size of 1 differently."""
    try:
        found = larger.module(check_guards=False)(*args, **kwargs)
        expected = model(*args, **kwargs)
    except Exception:  # of the model, or of a program that has no place for 1
        return False
    return _shapes(found) == _shapes(expected)


def _shapes(outputs: Any) -> list[Any]:
    leaves = pytree.tree_leaves(outputs)
    return [tuple(leaf.shape) if isinstance(leaf, Tensor) else type(leaf) for leaf in leaves]
