"""A method defined outside of the package: ``x`` stores rows unchanged, [n, d].

It has a part in every stage except TFLite, fitting and the benchmark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from edge_embed.exporters.onnx.method import OnnxMethod
from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs
from edge_embed.inspection.table_forms import Forms, TableForm
from edge_embed.lowering.method import LoweringMethod
from edge_embed.methods import Method, Words
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.packed.ids import checked_ids
from edge_embed.packed.packed_form import PackedTable, TensorSpec
from edge_embed.validation.method import ValidationMethod


@dataclass(frozen=True)
class XShape:
    """Sizes of a table."""

    num_embeddings: int
    embedding_dim: int
    value_type: str = "float32"

    @property
    def nbytes(self) -> int:
        return 4 * self.num_embeddings * self.embedding_dim

    @property
    def compression_ratio(self) -> float:
        return 1.0

    @property
    def plain(self) -> Self:
        return self

    def with_rows(self, num_embeddings: int) -> Self:
        return replace(self, num_embeddings=num_embeddings)

    def attributes(self) -> dict[str, Any]:
        return {"stored": "as it is"}

    def tensor_specs(self) -> dict[str, TensorSpec]:
        return {"stored": TensorSpec("float32", (self.num_embeddings, self.embedding_dim))}


@dataclass(frozen=True, eq=False, repr=False)
class PackedX(PackedTable):
    """Packed form with unchanged rows, float32 [n, d]."""

    stored: NDArray[np.float32]
    padding_idx: int | None = None
    method: ClassVar[str] = "x"

    @property
    def shape(self) -> XShape:
        return XShape(*self.stored.shape)

    @property
    def num_embeddings(self) -> int:
        return len(self.stored)

    @property
    def value_type(self) -> str:
        return "float32"

    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        return self.stored[checked_ids(ids, self.num_embeddings)].astype(np.float64)

    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        return np.abs(self.rows_float64(ids))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"stored": self.stored}

    @classmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> XShape:
        return XShape(num_embeddings, embedding_dim, value_type)

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        return cls(tensors["stored"], padding_idx)


def _rows(ids: Tensor, stored: Tensor, padding_idx: int | None) -> Tensor:
    check_id_range(ids, stored.shape[0])
    return finish_rows(stored[ids.reshape(-1).long()], ids, padding_idx)


FORM = define(
    "toy_x",
    "Tensor stored, int? padding_idx",
    _rows,
    size=lambda stored, padding_idx: (stored.shape[0], stored.shape[1]),
    like=lambda stored, padding_idx: stored,
)
FORMS = (FORM,)


class XEmbedding(nn.Module):
    """Layer with a trainable table [n, d]."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.stored = nn.Parameter(torch.randn(num_embeddings, embedding_dim))

    def forward(self, ids: Tensor) -> Tensor:
        rows: Tensor = FORM("rows", ids, self.stored, None)
        return rows


def _pack(arguments: list[Any], on_block: Any) -> PackedX:
    stored, padding_idx = arguments
    on_block(len(stored))
    return PackedX(stored.detach().float().numpy(), padding_idx)


LOWERING = LoweringMethod(
    name="x",
    packers={FORM: _pack},
    operators=lambda packed: FORM,
    arguments=lambda packed, tensors: (*tensors, packed.padding_idx),
)


def _shape(attributes: Attributes, tensors: Specs) -> XShape:
    return XShape(*tensors["stored"].shape)


NODE = NodeSchema("X", lambda count: ("stored",), ("format_version", "padding_idx"), _shape)
NODES = (NODE,)


def _table(stored: Any, padding_idx: int | None) -> tuple[list[Any], dict[str, int]]:
    return [stored], {"format_version": 1, "padding_idx": -1 if padding_idx is None else padding_idx}


_NUM_ROWS = """
  num_rows_1d = Shape <start: int = 0, end: int = 1> (stored)
  axis_0 = Constant <value_ints: ints = [0]> ()
  num_rows = Squeeze (num_rows_1d, axis_0)
"""
ONNX = (
    OnnxMethod(
        name="x",
        node=NODE,
        operators=FORM,
        table=_table,
        body=lambda count: (
            f"""{_NUM_ROWS}
  zero = Constant <value_int: int = 0> ()
  wide_ids = Cast <to: int = 7> (ids)
  is_negative = Less (wide_ids, zero)
  refused = Where (is_negative, num_rows, wide_ids)
  rows = Gather <axis: int = 0> (stored, refused)
"""
        ),
        num_rows=_NUM_ROWS,
    ),
)
VALIDATION = ValidationMethod(
    "x",
    exact=True,
    locate=lambda packed, tensor, offset, bit: f"row {offset // 4 // packed.embedding_dim}",
    terms=lambda packed: 1,
    comparisons=lambda packed: 1,
    column=lambda packed, index: f"column {index}",
)
INSPECTION: Forms = {FORM: TableForm("stored", lambda stored, padding_idx: (XShape(*stored.shape), padding_idx))}

X = Method(
    "x",
    {
        "packed": f"{__name__}:PackedX",
        "operators": f"{__name__}:FORMS",
        "lowering": f"{__name__}:LOWERING",
        "nodes": f"{__name__}:NODES",
        "onnx": f"{__name__}:ONNX",
        "validation": f"{__name__}:VALIDATION",
        "inspection": f"{__name__}:INSPECTION",
    },
    Words("stored as it is", lambda values: "rows", "nothing", "rows", "stored", "leave it dense"),
)
