"""Checks that a call in a saved graph fits its operator: number and kinds of arguments.

A value is a literal or a node of the graph (a tensor, or a number known at run time). The operator itself checks
properties that are known only at run time (ranks, sizes).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from edge_embed.errors import BadInputError

_ARITY = {"neg": 1, "pos": 1, "trunc": 1, "sym_not": 1, "sym_int": 1, "sym_float": 1, "sym_ite": 3}
_NUMBER = (fx.Node, int, float)  # bool is an int
_KINDS: dict[str, tuple[type, ...]] = {
    "TensorType": _NUMBER,  # a number represents a tensor of rank 0
    "IntType": (fx.Node, int, torch.dtype, torch.layout, torch.memory_format),  # enumerations count as int
    "SymIntType": (fx.Node, int),
    "FloatType": _NUMBER,
    "NumberType": _NUMBER,
    "BoolType": (fx.Node, bool),
    "StringType": (str,),
    "DeviceObjType": (torch.device,),
}


def check_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise for arguments that the operator does not have, and for a call that behaves differently in training.

    Raises:
        BadInputError: the message names the operator and the argument.
    """
    if not isinstance(function, torch._ops.OpOverload):
        _check_arithmetic(function, args, kwargs)
        return
    arguments = function._schema.arguments
    positional = [argument for argument in arguments if not argument.kwarg_only]
    if len(args) > len(positional):
        raise BadInputError(
            f"{function}: got {len(args)} positional arguments in the file, expected at most {len(positional)}"
        )
    given = {argument.name: value for argument, value in zip(positional, args, strict=False)}
    if twice := given.keys() & kwargs.keys() or kwargs.keys() - {argument.name for argument in arguments}:
        raise BadInputError(f"{function}: argument {min(twice)!r:.80} of the file is unknown or a duplicate")
    given.update(kwargs)
    for argument in arguments:
        if argument.name in given:
            if not _fits(argument.type, given[argument.name]):
                raise BadInputError(
                    f"{function}: argument {argument.name}: got {given[argument.name]!r:.80}, expected {argument.type}"
                )
        elif not argument.has_default_value():
            raise BadInputError(f"{function}: argument {argument.name} is missing")
    if given.get("train") or given.get("training") or given.get("dropout_p"):
        raise BadInputError(
            f"{function} was saved in training mode, so its output is random or changes the model: "
            "call model.eval() first, or save the model with edge_embed.save"
        )


def check_results(function: Callable[..., Any], count: int, is_list: bool) -> None:
    """Raise `BadInputError` unless the results of a call are those of the operator.

    Args:
        function: the operator.
        count: number of results that the file names.
        is_list: whether the file declares them as parts of one list.
    """
    returns = function._schema.returns if isinstance(function, torch._ops.OpOverload) else [None]
    lists = [item for item in returns if item is not None and item.type.kind() == "ListType"]
    if is_list != bool(lists) or (not is_list and count != len(returns)):
        raise BadInputError(f"{function}: got {count} results in the file, expected {len(returns)}")


def _check_arithmetic(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    wanted = _ARITY.get(function.__name__, 2)
    if kwargs or len(args) != wanted or not all(isinstance(value, _NUMBER) for value in args):
        raise BadInputError(f"{function.__name__}: got other arguments in the file, expected {wanted} numbers")


def _fits(kind: Any, value: Any) -> bool:
    name = kind.kind()
    if name == "OptionalType":
        return value is None or _fits(kind.getElementType(), value)
    if name == "ListType":
        items = value if isinstance(value, list) else [value]  # a number represents a list of it
        return all(_fits(kind.getElementType(), item) for item in items) and not isinstance(value, fx.Node)
    if name == "UnionType":
        return False
    return isinstance(value, _KINDS.get(name, ()))
