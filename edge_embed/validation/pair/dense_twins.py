"""The original with dense rows in its tables, as two files: with the stored rows and with its own rows.

    <X>Embedding (ids, tensors)   ->   Gather (rows, ids)
    <X>Logits (hidden, tensors)   ->   MatMul (hidden, Transpose (rows)), in float32

The nodes around a packed table stay. So the twin with the rows of the original shows whether the model uses its packed
tables as it used its dense ones.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper
from torch import Tensor

from edge_embed.compression.onnx.scopes import graphs_of
from edge_embed.compression.onnx.write import write_foreign
from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.fitting.fitted_table import Stored
from edge_embed.packed.stored_names import stored_name, table_of
from edge_embed.validation.pair.float_states import compute_in_float
from edge_embed.validation.pair.rewritten_original import Rewritten

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class DenseTwins:
    """Files of one graph.

    Attributes:
        reconstructed: file with the rows that the packed tables represent.
        exact: the same file, if it computes in float32, else a copy that does (`float_states`).
        dense: file with the rows of the original, which computes in float32 (`float_states`).
    """

    reconstructed: Path
    exact: Path
    dense: Path


def write_twins(rewritten: Rewritten, folder: Path) -> DenseTwins:
    """Write the files; the model in memory is changed to theirs.

    Args:
        rewritten: the original with packed tables.
        folder: an empty folder, which gets the weights of the model once and the rows of its tables twice.
    """
    model, tables = rewritten.file.model, rewritten.tables
    _make_dense(model.graph, tables)
    gone = {stored_name(name, tensor) for name, stored in tables.items() for tensor in stored.plain.tensors()}
    for at in reversed(range(len(model.graph.initializer))):
        if model.graph.initializer[at].name in gone:
            del model.graph.initializer[at]
    twins = DenseTwins(folder / "reconstructed.onnx", folder / "exact.onnx", folder / "dense.onnx")
    write_foreign(rewritten.file, twins.dense, force=True)
    kept = len(model.graph.initializer)
    stored_kinds = {name: np.dtype(stored.plain.row_type) for name, stored in tables.items()}
    own_kinds = {name: _own_kind(rewritten.dense[name], kind) for name, kind in stored_kinds.items()}
    kinds = {twins.reconstructed: stored_kinds, twins.dense: own_kinds}
    for path in (twins.reconstructed, twins.dense):
        for number, (name, stored) in enumerate(tables.items()):
            data = folder / f"{path.stem}.{number}"
            with data.open("wb") as file:
                for begin in range(0, stored.plain.num_embeddings, _ROWS_AT_ONCE):
                    ids = np.arange(begin, min(begin + _ROWS_AT_ONCE, stored.plain.num_embeddings))
                    rows = stored.plain.rows(ids) if path == twins.reconstructed else _own(rewritten, name, ids)
                    file.write(rows.astype(kinds[path][name].newbyteorder("<")).tobytes())
            model.graph.initializer.append(_external(name, stored, kinds[path][name], data))
        path.write_bytes(model.SerializeToString())
        if compute_in_float(model):  # once: the dense file follows
            twins.exact.write_bytes(model.SerializeToString())
        del model.graph.initializer[kept:]
    return twins if twins.exact.exists() else replace(twins, exact=twins.reconstructed)


def _own(rewritten: Rewritten, name: str, ids: NDArray[np.int64]) -> NDArray[Any]:
    """Return rows of the original, rotated like those of the packed table."""
    weight: Tensor = rewritten.dense[name][int(ids[0]) : int(ids[-1]) + 1]
    rows = weight.double().numpy()
    rotation = rewritten.tables[name].rotation
    return rows if rotation is None else rows @ np.linalg.inv(rotation.astype(np.float64))


def _own_kind(weight: Tensor, stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the original's rows: wider than that of the packed rows if a cast to it follows them."""
    return np.dtype(np.float32) if weight.dtype == torch.float32 else stored


def _external(name: str, stored: Stored, dtype: np.dtype[Any], data: Path) -> TensorProto:
    sizes = stored.plain.num_embeddings, stored.plain.embedding_dim
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    tensor = TensorProto(name=_rows_name(name), dims=sizes, data_type=kind, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=data.name)
    return tensor


def _rows_name(table: str) -> str:
    return f"edge_embed/rows/{table}"  # the package's own names contain no slash


def _make_dense(graph: GraphProto, tables: Mapping[str, Stored]) -> None:
    """Replace packed nodes by standard nodes, in a graph and those inside it."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in graphs_of(node):
            _make_dense(inner, tables)
        use = use_of(node, tables)
        nodes += [node] if use is None else _DENSE[use[1]](node, _rows_name(use[0]))
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _gather(node: NodeProto, rows: str) -> list[NodeProto]:
    return [helper.make_node("Gather", [rows, node.input[0]], list(node.output))]


def _product(node: NodeProto, rows: str) -> list[NodeProto]:
    hidden, result = node.input[0], node.output[0]
    wide, like, transposed, product = (
        f"edge_embed/{what}/{result}" for what in ("wide", "like", "transposed", "product")
    )
    return [
        helper.make_node("Cast", [hidden], [wide], to=TensorProto.FLOAT),  # as kernels compute it
        helper.make_node("CastLike", [rows, wide], [like]),
        helper.make_node("Transpose", [like], [transposed], perm=[1, 0]),
        helper.make_node("MatMul", [wide, transposed], [product]),
        helper.make_node("CastLike", [product, hidden], [result]),
    ]


_DENSE: Mapping[str, Callable[[NodeProto, str], list[NodeProto]]] = {"rows": _gather, "logits": _product}


def use_of(node: NodeProto, tables: Mapping[str, Stored]) -> tuple[str, str] | None:
    """Return the table and the use of one of our nodes, or None for any other node or table."""
    if node.domain != DOMAIN or node.op_type not in OPERATORS:
        return None
    operator = OPERATORS[node.op_type]
    name = table_of(node.input[operator.num_leading])
    return (name, operator.use) if name in tables else None


def packed_uses(graph: GraphProto, tables: Mapping[str, Stored]) -> Iterator[tuple[str, str]]:
    """Yield table and use of every node with one of these tables, in a graph and those inside it."""
    for node in graph.node:
        if use := use_of(node, tables):
            yield use
        for inner in graphs_of(node):
            yield from packed_uses(inner, tables)
