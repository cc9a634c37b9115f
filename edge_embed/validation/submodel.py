"""One table cut out of the exported file: a model of one node over the same bytes, with the same body.

The tensors are copied 1 MiB at a time into files beside the small model, so that memory does not grow with
the table; the folder is temporary and takes as much disk as the table.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from edge_embed.validation.exported import ExportedModel
from edge_embed.validation.tables import Table

IDS_TYPES: dict[np.dtype[np.signedinteger], int] = {
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
}


@dataclass(frozen=True)
class Submodel:
    """The models of one table, by the type of the ids; input ``ids`` of any shape, output ``rows``."""

    paths: dict[np.dtype[np.signedinteger], Path]

    @property
    def path(self) -> Path:
        """The one for int64."""
        return self.paths[np.dtype(np.int64)]


def cut_out(table: Table, exported: ExportedModel, folder: Path) -> Submodel:
    """Write the models of one table into ``folder``; a node must use the table (see `tables.stored_checks`)."""
    tensors = []
    for index, name in enumerate(table.tensors):
        data = folder / f"{index}.data"
        with data.open("wb") as file:
            for block in exported.blocks(name):
                file.write(block)
        tensors.append(_external(name, exported, data))
    node = NodeProto()
    node.CopyFrom(exported.nodes_of(table.tensors)[0])
    node.input[0], node.output[0] = "ids", "rows"
    paths: dict[np.dtype[np.signedinteger], Path] = {}
    for dtype, ids_type in IDS_TYPES.items():
        paths[dtype] = folder / f"{dtype}.onnx"
        paths[dtype].write_bytes(_model(exported.proto, node, tensors, ids_type).SerializeToString())
    return Submodel(paths)


def _external(name: str, exported: ExportedModel, data: Path) -> TensorProto:
    stored = next(tensor for tensor in exported.proto.graph.initializer if tensor.name == name)
    tensor = TensorProto(name=name, dims=stored.dims, data_type=stored.data_type, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=data.name)
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="length", value=str(data.stat().st_size))
    return tensor


def _model(whole: onnx.ModelProto, node: NodeProto, tensors: list[TensorProto], ids_type: int) -> onnx.ModelProto:
    ids = helper.make_tensor_value_info("ids", ids_type, None)
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "table", [ids], [rows], tensors)
    return helper.make_model(
        graph,
        ir_version=whole.ir_version,
        opset_imports=list(whole.opset_import),
        functions=list(whole.functions),
    )
