"""TFLite files with a table: a manifest and tensors for the delegate, and a body of standard operators.

The body looks rows up in a dense copy of the table, which no exported file has. Tests show that the delegate replaces
it; its form need not be that of the exporter.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ort_nodes import AntTable, DpqTable, Table, TtTable


def load_schema() -> Any:
    """Return the schema of TFLite, or skip if the package is missing."""
    import pytest

    return pytest.importorskip("ai_edge_litert.schema_py_generated", reason="pip install ai-edge-litert")


class Model:
    """Tensors and operators of one subgraph."""

    def __init__(self) -> None:
        self.schema = load_schema()
        self.model, self.graph = self.schema.ModelT(), self.schema.SubGraphT()
        self.model.version, self.model.subgraphs, self.model.description = 3, [self.graph], b"test"
        self.model.buffers, self.model.operatorCodes, self.model.metadata = [self.schema.BufferT()], [], []
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []

    def tensor(self, name: str, dtype: Any, shape: Sequence[int], content: np.ndarray | None = None) -> int:
        tensor = self.schema.TensorT()
        tensor.name, tensor.type = name.encode(), getattr(self.schema.TensorType, np.dtype(dtype).name.upper())
        tensor.shape, tensor.shapeSignature = [max(size, 1) for size in shape], list(shape)
        tensor.buffer = 0 if content is None else self.buffer(np.ascontiguousarray(content))
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(self, name: str, content: np.ndarray) -> int:
        return self.tensor(name, content.dtype, content.shape, content)

    def buffer(self, content: np.ndarray) -> int:
        buffer = self.schema.BufferT()
        buffer.data = content.reshape(-1).view(np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **values: object
    ) -> None:
        code = self.schema.OperatorCodeT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        self.model.operatorCodes.append(code)
        operator = self.schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(self.schema, f"{options}T")()
            vars(operator.builtinOptions).update(values)
        self.graph.operators.append(operator)

    def write(self, path: Path, inputs: Sequence[int], outputs: Sequence[int], manifest: str | None) -> Path:
        import flatbuffers

        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        if manifest is not None:
            entry = self.schema.MetadataT()
            entry.name, entry.buffer = b"edge_embed.delegate", self.buffer(np.frombuffer(manifest.encode(), np.uint8))
            self.model.metadata.append(entry)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        path.write_bytes(builder.Output())
        return path


def fields(table: Table) -> dict[str, object]:
    """Return the fields of a manifest line for a table whose tensors have the names of the packed form."""
    sizes: dict[str, object] = {"num_embeddings": table.num_embeddings, "padding_idx": table.padding_idx}
    if isinstance(table, DpqTable):
        attributes = table.attributes()
        sizes |= {name: attributes[name] for name in ("bits", "num_codes", "num_groups")}
        sizes |= {"group_width": table.width, "shared": int(table.shared)}
    elif isinstance(table, AntTable):
        sizes |= {"num_weights": np.count_nonzero(table.transform), "num_anchors": table.num_anchors}
        sizes |= {"embedding_dim": table.columns}
    elif isinstance(table, TtTable):
        ranks = [table.ring, *(core.shape[3] for core in table.cores)]
        shapes = {"row_shape": table.row_shape, "col_shape": table.col_shape, "ranks": ranks}
        sizes |= {name: ",".join(map(str, shape)) for name, shape in shapes.items()}
    return {name: name for name in table.tensors()} | sizes


def line(use: str, table: Table, **others: object) -> str:
    """Return a line of the manifest; keyword arguments replace fields, None omits one."""
    named = {name: value for name, value in (fields(table) | others).items() if value is not None}
    words = [f"{name}={value}" for name, value in named.items()]
    return " ".join([use, table.name.lower(), *words]) + "\n"


def manifest(*lines: str) -> str:
    return "edge_embed 1\n" + "".join(lines)


def add_table(model: Model, table: Table, prefix: str = "", **tensors: np.ndarray) -> None:
    """Add the table's tensors, which no operator reads; keyword arguments replace some."""
    for name, content in (table.tensors() | tensors).items():
        model.constant(prefix + name, content)


def add_rows(model: Model, table: Table, ids: int, name: str, rank: int) -> int:
    """Add a dense lookup."""
    dense = model.constant(f"{name}.dense", table.rows64.astype(np.float32))
    rows = model.tensor(name, np.float32, [-1] * rank + [table.dim])
    model.operator("GATHER", [dense, ids], [rows], "GatherOptions", axis=0)
    return rows


def rows_model(
    path: Path, table: Table, dtype: type = np.int32, text: str | None = None, **tensors: np.ndarray
) -> Path:
    """Write rows of ids [*, *]."""
    model = Model()
    ids = model.tensor("ids", dtype, [-1, -1])
    add_table(model, table, **tensors)
    rows = add_rows(model, table, ids, "rows", 2)
    return model.write(path, [ids], [rows], text or manifest(line("rows", table, ids="ids", output="rows")))
