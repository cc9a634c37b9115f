"""Repeated tracing if a trace is valid only for an example size of 1 of a dynamic dimension.

One cause is adding rows of a table of positions [T, d] to rows of ids [1, T]: torch 2.13 assumes a batch of 1 to
broadcast them. The nodes are then right for every batch, but their shapes are not, and ONNX Runtime warns in every run.
With two examples in place of one, no assumption is needed.
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
    """Return the trace of the example, or that of a larger one if only this is valid for sizes above 1.

    Args:
        trace: function of positional and keyword inputs.
        model: traced model, in eval mode.
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
    """Return the shape of each input in order; empty for an input that is not a tensor."""
    names = set(program.graph_signature.user_inputs)
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    return [tuple(value.shape) if isinstance(value, Tensor) else () for value in values]


def _limited(program: ExportedProgram) -> list[list[int]]:
    """Return the dynamic dimensions of each input whose upper bound is 1 or 2."""
    ranges = {str(symbol): found.upper for symbol, found in program.range_constraints.items()}
    return [
        [at for at, size in enumerate(shape) if isinstance(size, torch.SymInt) and ranges.get(str(size), 3) <= 2]
        for shape in _input_shapes(program)
    ]


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Return the example in new tensors: torch marks dynamic dimensions on the tensors that it traces."""
    copied: Arguments = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
    return copied


def _doubled(args: tuple[Any, ...], kwargs: dict[str, Any], limited: Sequence[Sequence[int]]) -> Arguments:
    """Return copies of the example, doubled along these dimensions of its inputs."""
    leaves, tree = pytree.tree_flatten(_copied(args, kwargs))
    for at, dimensions in enumerate(limited):
        for dimension in dimensions:
            leaves[at] = torch.cat((leaves[at], leaves[at]), dimension)
    doubled: Arguments = pytree.tree_unflatten(leaves, tree)
    return doubled


def _is_dynamic(larger: ExportedProgram, program: ExportedProgram) -> bool:
    """Return whether the same sizes are dynamic in both programs."""
    kinds = (
        [[isinstance(size, torch.SymInt) for size in shape] for shape in _input_shapes(one)]
        for one in (larger, program)
    )
    first, second = kinds
    return first == second


@torch.no_grad()
def _gives_the_same(larger: ExportedProgram, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether outputs of the example have the model's shapes; a model may treat a size of 1 differently."""
    try:
        found = larger.module(check_guards=False)(*args, **kwargs)
        expected = model(*args, **kwargs)
    except Exception:  # the model fails, or the program does not support 1
        return False
    return _shapes(found) == _shapes(expected)


def _shapes(outputs: Any) -> list[Any]:
    leaves = pytree.tree_leaves(outputs)
    return [tuple(leaf.shape) if isinstance(leaf, Tensor) else type(leaf) for leaf in leaves]
