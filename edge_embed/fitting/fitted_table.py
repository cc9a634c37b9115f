"""What stands in the place of a dense table: a layer, and, with some methods, a rotation of its rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.found_table import Rotates
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.packed.packed_form import PackedTable

ROTATION = "rotation"  # beside the names of a table's tensors


@dataclass(frozen=True, eq=False)
class Fitted:
    """Compressed rows of a table E [n, d].

    Attributes:
        layer: P, whose rows are E, or E R^T.
        rotation: R [d, d], or None.
    """

    layer: CompressedEmbedding
    rotation: Tensor | None = None

    def frozen(self, **types: str) -> "Fitted":
        """The same with a frozen layer, its numbers of these types; a rotation is float32 only where values are."""
        freeze: Any = self.layer.freeze
        layer: CompressedEmbedding = freeze(**types)
        if self.rotation is None or types.get("value_type", "float32") == "float32":
            return Fitted(layer, self.rotation)
        return Fitted(layer, self.rotation.half())

    def rows(self, ids: Tensor) -> Tensor:
        """Rows near to those of E: integers [m] -> float64 [m, d]."""
        rows: Tensor = self.layer(ids).double()
        return rows if self.rotation is None else rows @ self.rotation.double()

    def stored(self, rotates: Rotates) -> "Stored":
        """What a file has of it."""
        return Stored(self.layer.to_packed(), None if self.rotation is None else self.rotation.numpy(), rotates)


@dataclass(frozen=True, eq=False)
class Stored:
    """A packed table, and the rotation of its rows.

    Attributes:
        plain: P.
        rotation: R, float32 or float16 [d, d], or None.
        rotates: what becomes of it.
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
        """Bytes of the rotation; none where it is folded."""
        beside = self.arrays().get(ROTATION)
        return 0 if beside is None else beside.nbytes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a file has of it, by name; a rotation that is folded is a part of something else."""
        beside = {} if self.rotation is None or self.rotates == "folded" else {ROTATION: self.rotation}
        return {**self.plain.tensors(), **beside}

    def rows_float64(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Rows near to those of E, [m] -> [m, d]."""
        rows = self.plain.rows_float64(ids)
        return rows if self.rotation is None else rows @ self.rotation.astype(np.float64)
