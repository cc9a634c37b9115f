"""Checks of a traced model for content that exported files cannot hold, while lines of user code are still known."""

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind, SymIntArgument, TensorArgument
from torch.utils import _pytree as pytree

from edge_embed.errors import BadInputError
from edge_embed.program.operators import NUMBERS, SELECT, is_ignored, resolve
from edge_embed.program.trace_errors import place_in


def check_traced(program: ExportedProgram, model: str) -> None:
    """Raise for operators, changes of state and outputs that cannot be read back.

    Args:
        program: program with the stack traces of torch.
        model: class name of the model, for messages.

    Raises:
        BadInputError: the message names the operator and the line, the buffer, or the output.
    """
    for node in program.graph.nodes:
        if node.op == "call_function":
            _check_call(node)
    _check_outputs(program, model)


def _check_call(node: fx.Node) -> None:
    where = _where(node)
    if isinstance(node.target, torch._ops.OpOverload):
        if "dropout" in str(node.target) and True in node.args:
            raise BadInputError(f"dropout is active in eval mode{where}: call it with training=self.training")
        name = str(node.target)
    elif isinstance(node.target, torch._ops.HigherOrderOperator):
        name = f"higher_order.{node.target.name()}"
    else:
        return
    if name in NUMBERS and _takes_rows(node):
        return
    try:
        resolve(f"torch.ops.{name}")
    except BadInputError as error:
        raise BadInputError(f"{error}{where}") from error


def _takes_rows(number: fx.Node) -> bool:
    """Return whether a number only selects a row, which is read as a lookup (`edge_embed.program.row_numbers`)."""
    if number.all_input_nodes[0].meta["val"].dtype not in (torch.int32, torch.int64):
        return False
    return all(
        (str(user.target) == SELECT and user.args[2] is number) or is_ignored(str(user.target)) or _is_checked(user)
        for user in number.users
    )


def _is_checked(node: fx.Node) -> bool:
    """Return whether the results computed from a number are only compared."""
    return not isinstance(node.target, torch._ops.OpOverload) and all(
        is_ignored(str(user.target)) or _is_checked(user) for user in node.users
    )


def _where(node: fx.Node) -> str:
    """Return text such as `` (in layer 'encoder.0', model.py:12 (x = torch.svd(x)))``, as far as it is known."""
    stack = node.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    parts = [part for part in (f"layer {path!r}" if path else "", place_in(node.meta.get("stack_trace") or "")) if part]
    return f" (in {', '.join(parts)})" if parts else ""


def _check_outputs(program: ExportedProgram, model: str) -> None:
    specs = program.graph_signature.output_specs
    for spec in specs:
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            what = "buffer" if spec.kind == OutputKind.BUFFER_MUTATION else "input"
            raise BadInputError(
                f"the model changes its {what} {spec.target!r} while it runs, which cannot be exported: make state "
                "(such as a cache of keys and values) an input and an output, and update a counter only if "
                "self.training"
            )
    outputs = [spec for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    for spec, name in zip(outputs, _paths(program, len(outputs)), strict=True):
        if not isinstance(spec.arg, TensorArgument):
            raise BadInputError(
                f"{name} of {model}.forward is {_spelled(spec.arg)}, expected a tensor: remove this output"
            )
    if not outputs:
        raise BadInputError(f"{model}.forward returns no tensor, expected at least one")


def _spelled(argument: Any) -> str:
    if isinstance(argument, ConstantArgument):
        return f"{argument.value!r:.80}"
    return "a size" if isinstance(argument, SymIntArgument) else f"a {type(argument).__name__}"


def _paths(program: ExportedProgram, count: int) -> list[str]:
    """Return the name of each output in the result of forward."""
    tree = program.call_spec.out_spec
    if tree is None or tree.num_leaves != count or count == 1:
        return ["the output"] if count == 1 else [f"output {at}" for at in range(count)]
    leaves, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten([0] * count, tree))
    return [f"output {pytree.keystr(path)}" for path, _ in leaves]
