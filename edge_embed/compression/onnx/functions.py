"""Functions of a model: the order of their calls, and default values of attributes that a call omits."""

from collections.abc import Iterator, Sequence

from onnx import FunctionProto, ModelProto, checker

from edge_embed.compression.onnx.scopes import walk

Name = tuple[str, str]  # domain and name; all overloads of a function have them


def by_depth(functions: Sequence[FunctionProto]) -> Iterator[list[Name]]:
    """Yield names of functions in groups, callers first, because inlining a caller adds calls to the model."""
    left: dict[Name, list[FunctionProto]] = {}
    for one in functions:
        left.setdefault((one.domain, one.name), []).append(one)
    while left:
        called = {(node.domain, node.op_type) for same in left.values() for one in same for node in walk(one.node)}
        group = [name for name in left if name not in called] or list(left)
        yield group
        left = {name: same for name, same in left.items() if name not in group}


def give_defaults(model: ModelProto, names: Sequence[Name]) -> None:
    """Add to each call of these functions the attributes that it omits and that have a default in the function.

    onnx's inliner omits these, so that operators would use their own default instead of that of the function.

    Raises:
        onnx.checker.ValidationError: a default value is malformed.
    """
    defaults = {
        (one.domain, one.name, one.overload): one.attribute_proto
        for one in model.functions
        if (one.domain, one.name) in names and len(one.attribute_proto)
    }
    for values in defaults.values():
        for item in values:
            checker.check_attribute(item)  # the checker skips attributes of functions
    for nodes in (model.graph.node, *(one.node for one in model.functions)) if defaults else ():
        for node in walk(nodes):
            given = {item.name for item in node.attribute}
            values = defaults.get((node.domain, node.op_type, node.overload), ())
            node.attribute.extend(item for item in values if item.name not in given)
