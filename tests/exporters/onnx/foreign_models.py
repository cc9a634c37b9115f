"""Models as other tools make them, and the packed tables of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.packed.manifest import parse_manifest
from edge_embed.packed.packed_form import METHODS, PackedTable
from edge_embed.runtime.session import create_session

ROWS, COLUMNS = 300, 16


def table(rows: int = ROWS, columns: int = COLUMNS, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Return rows around a few centres, which codes represent well."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((12, columns))
    return (centres[random.integers(0, 12, rows)] + 0.05 * random.standard_normal((rows, columns))).astype(dtype)


def look_up(name: str = "words.weight", ids: str = "ids", rows: str = "rows", **attributes: int) -> NodeProto:
    return make_node("Gather", [name, ids], [rows], f"look_up_{rows}", **attributes)


def model(
    nodes: Sequence[NodeProto],
    tensors: Mapping[str, np.ndarray],
    outputs: Mapping[str, Any],
    *,
    inputs: Mapping[str, Any] | None = None,
    opset: int = 18,
    ir_version: int = 8,
    **more: Any,
) -> onnx.ModelProto:
    """Return a model; inputs and outputs are names with shapes, ``ids`` and ``ids_*`` are int64, others float32."""
    inputs = {"ids": ["batch", "sequence"]} if inputs is None else inputs
    graph = helper.make_graph(
        list(nodes),
        "made_elsewhere",
        [_value(*item) for item in inputs.items()],
        [_value(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, producer_name="elsewhere", **more)


def _value(name: str, shape: Any) -> onnx.ValueInfoProto:
    kind = TensorProto.INT64 if name.startswith("ids") else TensorProto.FLOAT
    if isinstance(shape, tuple):  # with a type of its own
        kind, shape = shape
    return make_tensor_value_info(name, kind, shape)


def saved(made: onnx.ModelProto, folder: Path, name: str = "model.onnx", **options: Any) -> Path:
    onnx.checker.check_model(made)
    onnx.save(made, folder / name, **options)
    return folder / name


def packed_tables(path: Path) -> dict[str, PackedTable]:
    """Return the tables of a file from its manifest and its tensors."""
    made = onnx.load(path)
    (text,) = (item.value for item in made.metadata_props if item.key == MANIFEST_KEY)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    found = {}
    for name, entry in parse_manifest(text, path.stat().st_size).tables.items():
        arrays = {key: tensors[f"{name}.{key}"] for key in entry.shape.tensor_specs()}
        found[name] = METHODS[entry.method].from_tensors(arrays, entry.shape.attributes(), entry.padding_idx)
    return found


def rows_of(small: Path, name: str) -> np.ndarray:
    """Return the rows of a packed table of a file, multiplied by its rotation if it has one."""
    packed = packed_tables(small)[name]
    rows = packed.rows(np.arange(packed.num_embeddings))
    rotations = [each for each in onnx.load(small).graph.initializer if each.name == f"{name}.rotation"]
    return rows @ numpy_helper.to_array(rotations[0]).astype(np.float32) if rotations else rows


def with_rows(made: onnx.ModelProto, rows: Mapping[str, np.ndarray]) -> bytes:
    """Return the dense model with other numbers of the same types in its tables."""
    for tensor in made.graph.initializer:
        if tensor.name in rows:
            dtype = numpy_helper.to_array(tensor).dtype
            tensor.CopyFrom(numpy_helper.from_array(rows[tensor.name].astype(dtype), tensor.name))
    return made.SerializeToString()


def run(path: Path, feeds: Mapping[str, np.ndarray], *, portable: bool) -> list[np.ndarray]:
    found: list[np.ndarray] = create_session(path, portable=portable).run(None, dict(feeds))
    return found
