"""The check of ids around a node of an exported file, with the names that a model of one use has.

See `edge_embed.exporters.onnx.id_check` for its nodes.
"""

from collections.abc import Mapping, Sequence

from onnx import GraphProto, NodeProto, TensorProto, helper


def checked_part(graph: GraphProto, node: NodeProto, inputs: Sequence[str], result: str) -> list[NodeProto]:
    """Return a node with the nodes of its check, in order; an empty list if it has no check.

    Args:
        graph: the graph of the file.
        node: a lookup or bag of the graph.
        inputs: names for the values that the check and the node read, in the order of the node's inputs; ids first.
        result: name for the checked result.
    """
    producers = {name: each for each in graph.node for name in each.output}
    clip = producers.get(node.input[0])
    if clip is not None and clip.op_type == "Add":
        clip = producers.get(clip.input[0])
    marks = [each for each in graph.node if each.op_type == "Mul" and each.input[0] == node.output[0]]
    if clip is None or clip.op_type != "Clip" or len(marks) != 1 or _kind(producers, marks[0].input[1]) != "Unsqueeze":
        return []
    wide = helper.make_node("Cast", inputs[:1], [f"{inputs[0]}/wide"], to=TensorProto.INT64)  # the check is of one type
    names = dict(zip([clip.input[0], *node.input[1 : len(inputs)]], [*wide.output, *inputs[1:]], strict=True))
    names |= {tensor.name: tensor.name for tensor in graph.initializer}
    needed = _needed(producers, marks[0], names)
    names[marks[0].output[0]] = result
    return [wide, *(_renamed(each, names) for each in graph.node if id(each) in needed)]


def _kind(producers: Mapping[str, NodeProto], name: str) -> str:
    return producers[name].op_type if name in producers else ""


def _needed(producers: Mapping[str, NodeProto], last: NodeProto, known: Mapping[str, str]) -> set[int]:
    """Return the identities of the nodes from known values to a node."""
    found, open_nodes = set[int](), [last]
    while open_nodes:
        each = open_nodes.pop()
        if id(each) not in found:
            found.add(id(each))
            open_nodes += [producers[name] for name in each.input if name and name not in known]
    return found


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, f"{name}/inside" if name else "") for name in node.input]
    copy.output[:] = [names.get(name, f"{name}/inside" if name else "") for name in node.output]
    return copy
