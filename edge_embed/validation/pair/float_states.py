"""Models whose products round hidden states to 8 bits, changed to products in float32.

    MatMulNBits with accuracy_level 4:  h ~ step * round(h / step),  step = max |h| / 127 in each block

A state that differs in its last bit moves by a whole step, and layers amplify steps. So the rounding hides whether two
graphs compute the same, and both are compared without it.
"""

from pathlib import Path

from onnx import ModelProto

from edge_embed.compression.onnx.foreign_model import read_foreign
from edge_embed.compression.onnx.scopes import walk
from edge_embed.compression.onnx.write import write_foreign

_LEVEL, _FLOAT, _INT8 = "accuracy_level", 1, 4


def compute_in_float(model: ModelProto) -> bool:
    """Change the products of a model in memory; return whether one of them rounded its states."""
    levels = [
        item
        for node in walk(model.graph.node)
        if node.op_type == "MatMulNBits"
        for item in node.attribute
        if item.name == _LEVEL and item.i == _INT8
    ]
    for item in levels:
        item.i = _FLOAT
    return bool(levels)


def in_float(path: Path, copy: Path) -> Path:
    """Return the path of a model that computes in float32: the model itself if it rounds no states, else a new copy."""
    file = read_foreign(path)
    if not compute_in_float(file.model):
        return path
    write_foreign(file, copy, force=True)
    return copy
