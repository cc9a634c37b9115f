"""Tolerance of models whose products round hidden states to 8 bits.

    MatMulNBits with accuracy_level 4:  h ~ step * round(h / step),  step = max |h| / 127 in each block

A state that differs in its last bit can move by a whole step. The error of an output is therefore a part of its size,
and not of each value.
"""

from onnx import ModelProto

from edge_embed.compression.onnx.scopes import walk
from edge_embed.program.program import Program, array

_INT8 = 4  # accuracy_level of integers of 8 bits
# A step is 1/40 of the root mean square if the largest state of a block is 3 times that. Steps of all layers add up: in
# models with random weights, whose layers amplify more than those of trained ones, outputs differed by up to 0.244.
ATOL = 0.3


def int8_tolerances(model: ModelProto, program: Program) -> dict[str, float]:
    """Return absolute tolerances by output: `ATOL` times its root mean square; empty for other models.

    Args:
        model: the original.
        program: the original as a program, with an example that it runs on.
    """
    nodes = (node for node in walk(model.graph.node) if node.op_type == "MatMulNBits")
    if not any(item.name == "accuracy_level" and item.i == _INT8 for node in nodes for item in node.attribute):
        return {}
    outputs = map(array, program.run(*program.example_inputs))
    sizes = {name: value for name, value in zip(program.output_names, outputs, strict=True) if value.dtype.kind == "f"}
    return {name: ATOL * float((value.astype(float) ** 2).mean() ** 0.5) for name, value in sizes.items() if value.size}
