"""One use of a table, cut out of the exported file: a model of one node over the same bytes, with the same body.

The tensors are copied 1 MiB at a time into files beside the small model, so that memory does not grow with
the table. The folder is temporary and takes as much disk space as the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from edge_embed.lowering.id_check import IdCheck
from edge_embed.validation.checked_part import checked_part
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.table_call import TableCall
from edge_embed.validation.tables import Node, Table, node_of


@dataclass(frozen=True)
class Submodel:
    """The models of one use; inputs may have any shape.

    Attributes:
        paths: models by the type of the first input.
        id_check: check of ids in them, or None.
    """

    paths: Mapping[np.dtype[Any], Path]
    id_check: IdCheck | None = None

    @property
    def path(self) -> Path:
        """The path of the first model."""
        return next(iter(self.paths.values()))


def copy_tensors(table: Table, exported: ExportedModel, folder: Path) -> list[TensorProto]:
    """Copy the stored tensors of a table to files in ``folder``."""
    tensors = []
    for index, name in enumerate(table.tensors):
        data = folder / f"{index}.data"
        with data.open("wb") as file:
            for block in exported.blocks(name):
                file.write(block)
        tensors.append(_external(name, exported, data))
    return tensors


def cut_out(call: TableCall, exported: ExportedModel, tensors: list[TensorProto], folder: Path) -> Submodel | None:
    """Write the models of one use into ``folder``, beside its tensors; return None if no node of the file has that use.

    A lookup or bag whose ids the file checks is cut out with the check.
    A node with the expected attributes is preferred to other nodes of that use.
    """
    used = [node for node in exported.nodes_of(call.table.tensors) if node.op_type == call.op_type]
    wanted = Node(call.op_type, call.attributes)
    found = next((node for node in used if node_of(node) == wanted), used[0] if used else None)
    if found is None:
        return None
    checked = _checked(call, exported, found)
    node = NodeProto()
    node.CopyFrom(found)
    node.input[: len(call.inputs)] = call.inputs
    stored = [*tensors, *_constants(checked, exported, tensors)]
    paths: dict[np.dtype[Any], Path] = {}
    for dtype, types in call.signatures.items():
        paths[dtype] = folder / f"{call.name} {dtype}.onnx"
        inputs = [_value(name, types[name]) for name in call.inputs]
        node.output[:] = call.outputs(dtype)
        outputs = [_value(name, kind) for name, kind in call.outputs(dtype).items()]
        graph = helper.make_graph(checked or [node], "table", inputs, outputs, stored)
        paths[dtype].write_bytes(_model(exported.proto, graph).SerializeToString())
    return Submodel(paths, exported.id_check if checked else None)


def _checked(call: TableCall, exported: ExportedModel, node: NodeProto) -> list[NodeProto]:
    """Return the node with the check of its ids, or an empty list if the file has none."""
    if exported.id_check is None or call.inputs[0] != "ids":
        return []
    (result,) = call.outputs(next(iter(call.signatures)))
    return checked_part(exported.proto.graph, node, call.inputs, result)


def _constants(nodes: list[NodeProto], exported: ExportedModel, tensors: list[TensorProto]) -> list[TensorProto]:
    """Return the initializers that nodes read, without those of the table."""
    names = {name for node in nodes for name in node.input} - {tensor.name for tensor in tensors}
    return [tensor for tensor in exported.proto.graph.initializer if tensor.name in names]


def _value(name: str, dtype: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)


def _external(name: str, exported: ExportedModel, data: Path) -> TensorProto:
    stored = next(tensor for tensor in exported.proto.graph.initializer if tensor.name == name)
    tensor = TensorProto(name=name, dims=stored.dims, data_type=stored.data_type, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=data.name)
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="length", value=str(data.stat().st_size))
    return tensor


def _model(whole: onnx.ModelProto, graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(
        graph,
        ir_version=whole.ir_version,
        opset_imports=list(whole.opset_import),
        functions=list(whole.functions),
    )
