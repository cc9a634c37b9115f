"""Replacement of a dense table: a layer and, with some methods, a rotation of its rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.found_table import Rotates
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.packed.packed_form import PackedTable

ROTATION = "rotation"  # key beside the names of a table's tensors


@dataclass(frozen=True, eq=False)
class Fitted:
    """Compressed rows of a table E [n, d].

    Attributes:
        layer: P, whose rows approximate E, or E R^T.
        rotation: R [d, d], or None.
    """

    layer: CompressedEmbedding
    rotation: Tensor | None = None

    def frozen(self, **types: str) -> "Fitted":
        """Return a copy with a frozen layer and numbers of these dtypes; a rotation stays float32 if values do."""
        freeze: Any = self.layer.freeze
        layer: CompressedEmbedding = freeze(**types)
        if self.rotation is None or types.get("value_type", "float32") == "float32":
            return Fitted(layer, self.rotation)
        return Fitted(layer, self.rotation.half())

    def approximated(self, weight: Tensor) -> Tensor:
        """Return the rows that the layer approximates, those of E or of E R^T, from E [n, d]."""
        return weight if self.rotation is None else weight.float() @ self.rotation.float().t()

    def rows(self, ids: Tensor) -> Tensor:
        """Return rows that approximate those of E: integers [m] -> float64 [m, d]."""
        rows: Tensor = self.layer(ids).double()
        return rows if self.rotation is None else rows @ self.rotation.double()

    def stored(self, rotates: Rotates) -> "Stored":
        """Return the stored form of the table."""
        return Stored(self.layer.to_packed(), None if self.rotation is None else self.rotation.numpy(), rotates)


@dataclass(frozen=True, eq=False)
class Stored:
    """Packed table and rotation of its rows, as a file stores them.

    Attributes:
        plain: packed table P.
        rotation: R, float32 or float16 [d, d], or None.
        rotates: place of the rotation in the model.
    """

    plain: PackedTable
    rotation: NDArray[np.floating[Any]] | None = None
    rotates: Rotates = "beside"

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.plain.nbytes + self.rotation_nbytes

    @property
    def rotation_nbytes(self) -> int:
        """Bytes of the rotation; 0 if it is folded into another weight."""
        beside = self.arrays().get(ROTATION)
        return 0 if beside is None else beside.nbytes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that a file stores, by name; a folded rotation is part of another weight."""
        beside = {} if self.rotation is None or self.rotates == "folded" else {ROTATION: self.rotation}
        return {**self.plain.tensors(), **beside}

    def rows_float64(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rows that approximate those of E, [m] -> [m, d]."""
        rows = self.plain.rows_float64(ids)
        return rows if self.rotation is None else rows @ self.rotation.astype(np.float64)
