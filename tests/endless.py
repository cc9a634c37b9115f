"""Models that go on for ever: they count to 2^62."""

from pathlib import Path

import onnx
from onnx import NodeProto, TensorProto, helper


def endless_loop(source: str, result: str) -> NodeProto:
    """A node that takes float32 of any shape and would return it."""
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
    """What the node takes beside its source."""
    return [
        helper.make_tensor("trips", TensorProto.INT64, [], [2**62]),
        helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
    ]


def make_endless(source: Path, target: Path, *, in_reference: bool) -> None:
    """Let a model go on for ever before it gives its first output.

    Args:
        source: an exported file.
        target: where the changed one is written.
        in_reference: whether the reference evaluator runs it; without, it lacks an operator.
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
