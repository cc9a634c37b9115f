"""Removal of wrappers that only call a module, so that inputs and tables have the names of the user's own model."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from edge_embed.errors import BadInputError

# Attribute that holds the wrapped module, by class name: some builds of torch lack some of these classes.
_INNER = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
_SHARDED = "FullyShardedDataParallel"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the module inside wrappers of ``torch.compile``, ``DataParallel`` and ``DistributedDataParallel``.

    Raises:
        BadInputError: if it is sharded over processes, so that none of them has the weights.
    """
    while type(model).__module__.startswith("torch."):
        kind = type(model).__name__
        if kind == _SHARDED:
            raise BadInputError(
                f"the model is wrapped in {_SHARDED}, which stores a part of each weight: gather the weights with "
                "torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
                "options=StateDictOptions(full_state_dict=True)), and load them into the plain module by "
                "load_state_dict"
            )
        if kind not in _INNER or model._forward_hooks or model._forward_pre_hooks:
            break
        model = getattr(model, _INNER[kind])
    return model


@contextmanager
def children_unwrapped(model: nn.Module) -> Iterator[None]:
    """Replace wrappers by the modules inside them, at any depth of the model, while this context is active."""
    replaced = [
        (module, name, child, inner)
        for module in list(model.modules())
        for name, child in module._modules.items()
        if child is not None and (inner := unwrapped(child)) is not child
    ]
    try:
        for module, name, _, inner in replaced:
            module._modules[name] = inner
        yield
    finally:
        for module, name, child, _ in replaced:
            module._modules[name] = child


@contextmanager
def inputs_named(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> Iterator[Any]:
    """Give a ``forward(*args, **kwargs)`` a signature with named inputs while active; yield its dynamic shapes.

    Positional inputs get the names in the module that it wraps, or ``input``; others their keywords. A forward with
    named inputs is not changed.
    """
    parameters = inspect.signature(model.forward).parameters.values()
    in_order = next((item.name for item in parameters if item.kind == _VARIADIC[0]), None)
    by_name = next((item.name for item in parameters if item.kind == _VARIADIC[1]), None)
    declared = [item.name for item in parameters if item.kind not in _VARIADIC]
    unnamed = (in_order is not None and not declared) or (by_name is not None and kwargs.keys() - set(declared))
    if not unnamed or (declared and len(args) > len(declared)):
        yield dynamic_shapes
        return
    names = [*(declared[: len(args)] if declared else _names_in_order(model, args, kwargs)), *kwargs]
    own = model.__dict__.get("forward")
    forward = model.forward

    def named(*values: Any, **others: Any) -> Any:
        return forward(*values, **others)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    model.forward = named
    try:
        yield _spread(dynamic_shapes, in_order, by_name, names)
    finally:
        if own is None:
            del model.forward
        else:
            model.forward = own


def _names_in_order(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Return the names of positional inputs in the only module inside, if it accepts them; else names by position."""
    children = [child for child in model.children() if not isinstance(child, nn.ModuleList | nn.ModuleDict)]
    if len(children) == 1:
        try:
            signature = inspect.signature(unwrapped(children[0]).forward)
            bound = signature.bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            bound = {}
        names = [name for name in bound if name not in kwargs]
        if len(names) == len(args) and all(signature.parameters[name].kind not in _VARIADIC for name in names):
            return names
    return ["input"] if len(args) == 1 else [f"input_{at}" for at in range(len(args))]


def _spread(dynamic_shapes: Any, in_order: str | None, by_name: str | None, names: Sequence[str]) -> Any:
    """Return dynamic shapes by the names of the inputs, if they were given for ``args`` and ``kwargs`` as a whole."""
    if not isinstance(dynamic_shapes, Mapping):
        return dynamic_shapes
    shapes = dict(dynamic_shapes)
    if isinstance(shapes.get(in_order or ""), list | tuple):
        shapes |= dict(zip(names, shapes.pop(in_order or ""), strict=False))
    if by_name not in names and isinstance(shapes.get(by_name or ""), Mapping):
        shapes |= shapes.pop(by_name or "")
    return shapes
