"""Models that never end: their loop counts to 2^62."""

from pathlib import Path

import onnx
from onnx import NodeProto, TensorProto, helper


def endless_loop(source: str, result: str) -> NodeProto:
    """Return a loop node that accepts float32 of any shape."""
    count, going, state = (
        helper.make_tensor_value_info(*spec)
        for spec in (("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("state", TensorProto.FLOAT, None))
    )
    ends = [
        helper.make_tensor_value_info("going_on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("grown", TensorProto.FLOAT, None),
    ]
    nodes = [helper.make_node("Sin", ["state"], ["grown"]), helper.make_node("Identity", ["go"], ["going_on"])]
    body = helper.make_graph(nodes, "body", [count, going, state], ends)
    return helper.make_node("Loop", ["trips", "yes", source], [result], body=body)


def loop_tensors() -> list[TensorProto]:
    """Return the constant inputs of the loop node: number of iterations and first condition."""
    return [
        helper.make_tensor("trips", TensorProto.INT64, [], [2**62]),
        helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
    ]


def make_endless(source: Path, target: Path, *, in_reference: bool) -> None:
    """Write a model that loops without end before it returns its first output.

    Args:
        source: an exported file.
        target: path of the changed file.
        in_reference: whether the reference evaluator can run the file. If false, an operator that it lacks is added.
    """
    model = onnx.load(source)
    graph, name = model.graph, model.graph.output[0].name
    for node in graph.node:
        node.output[:] = [f"{output}_before" if output == name else output for output in node.output]
    if not in_reference:
        graph.node.append(helper.make_node("Gelu", [f"{name}_before"], [f"{name}_gelu"], domain="com.microsoft"))
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph.node.append(endless_loop(f"{name}_before" if in_reference else f"{name}_gelu", name))
    graph.initializer.extend(loop_tensors())
    onnx.save(model, target)
