"""Small ONNX files of other tools, compressed in place, and changes to the written files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import edge_embed
from edge_embed.report.results.validation import ValidationReport
from edge_embed.validation.options import ValidationOptions
from tests.exporters.onnx.foreign_models import COLUMNS, ROWS, look_up, model, saved, table

make_node = helper.make_node


def classifier(**options: Any) -> onnx.ModelProto:
    """Return a model of masked means of rows and scores of three classes, with a constant inside a node."""
    nodes = [
        look_up(),
        make_node("Unsqueeze", ["mask", "last"], ["wide"], "widen"),
        make_node("Mul", ["rows", "wide"], ["kept"], "keep"),
        make_node("ReduceSum", ["kept", "axis"], ["sums"], "sum", keepdims=0),
        make_node("Gemm", ["sums", "head", "bias"], ["scores"], "head", alpha=1.0),
        make_node("Constant", [], ["shift"], "shift", value=numpy_helper.from_array(np.float32([0.5, 0, 0]), "shift")),
        make_node("Add", ["scores", "shift"], ["logits"], "add"),
        make_node("ArgMax", ["logits"], ["best"], "best", axis=-1),
    ]
    random = np.random.default_rng(3)
    tensors = {
        "words.weight": table(),
        "head": random.standard_normal((COLUMNS, 3)).astype(np.float32),
        "bias": random.standard_normal(3).astype(np.float32),
        "last": np.array([2]),
        "axis": np.array([1]),
    }
    outputs = {"logits": ["batch", 3], "best": (TensorProto.INT64, ["batch", 1])}
    inputs = {"ids": ["batch", "sequence"], "mask": ["batch", "sequence"]}
    return model(nodes, tensors, outputs, inputs=inputs, **options)


def pair(folder: Path, made: onnx.ModelProto | None = None, **wanted: Any) -> tuple[Path, Path]:
    """Write an original and compress it."""
    original = saved(classifier() if made is None else made, folder, "original.onnx")
    return original, compressed(original, **wanted)


def compressed(original: Path, **wanted: Any) -> Path:
    wanted = wanted or {"method": "dpq", "num_codes": 16, "num_groups": 4}
    path = original.with_name(f"small{original.suffix}")
    edge_embed.compress(original, output=path, force=True, **wanted)
    return path


def validate(original: Path, small: Path, **options: Any) -> ValidationReport:
    return edge_embed.validate(original, small, options=ValidationOptions(**{"iterations": 0, **options}))


def changed(small: Path, change: Callable[[onnx.ModelProto], object]) -> Path:
    """Write a copy with a planted fault."""
    made = onnx.load(small, load_external_data=False)
    change(made)
    path = small.with_name("changed.onnx")
    path.write_bytes(made.SerializeToString())
    return path


def node(made: onnx.ModelProto, name: str) -> NodeProto:
    return next(each for each in made.graph.node if each.name == name)


def tensor(made: onnx.ModelProto, name: str) -> TensorProto:
    return next(each for each in made.graph.initializer if each.name == name)


def flip(found: TensorProto, byte: int = 0) -> None:
    """Flip the lowest bit of one byte."""
    content = bytearray(found.raw_data)
    content[byte] ^= 1
    found.raw_data = bytes(content)


__all__ = ["ROWS", "changed", "classifier", "compressed", "flip", "node", "pair", "tensor", "validate"]
