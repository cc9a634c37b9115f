"""Tensor train and tensor ring, packed: a few small cores (Hrinchuk et al. 2020, Tensorized Embedding Layers, eq. 1).

    id = (i_1 I_2 + i_2) I_3 + ...        column = (j_1 J_2 + j_2) J_3 + ...        i_1 and j_1 most significant
    row(id)[column] = trace( G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :] )

With R_0 = R_N = 1 (a tensor train) the product is one number; with larger ranks (a tensor ring) it is a matrix. Ids
with equal first digits share numbers, so a table may have its own order: the digits are then those of row_order[id].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.packed.arrays import check_finite, check_floats, check_specs
from edge_embed.packed.ids import check_padding_idx, checked_ids
from edge_embed.packed.packed_form import PackedTable
from edge_embed.packed.row_order import checked_row_order
from edge_embed.packed.segments import BLOCK_NUMBERS
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES, TTShape


@suggests_keywords
@dataclass(frozen=True, eq=False, repr=False)
class PackedTT(PackedTable):
    """Packed tensor-train or tensor-ring table: its cores.

    Attributes:
        cores: N = 2 to 6 arrays, float32 or float16 [I_k, R_{k-1}, J_k, R_k]; finite. Rows have the same dtype.
        num_embeddings: Rows n; ids from n to I_1 ... I_N - 1 are refused.
        padding_idx: Row that is exactly +0.0, or None.
        row_order: Row in the cores of each id, a permutation, int32 [n]; None if each id is its row. The padding row
            keeps its place.

    Raises:
        BadInputError: A shape, dtype, size or value is wrong; the message names the core.
    """

    cores: tuple[NDArray[np.floating[Any]], ...]
    num_embeddings: int
    padding_idx: int | None = None
    row_order: NDArray[np.int32] | None = None
    method: ClassVar[str] = "tt"

    def __post_init__(self) -> None:
        if not MIN_CORES <= len(self.cores) <= MAX_CORES:
            raise BadInputError(f"cores: got {len(self.cores)}, expected {MIN_CORES} to {MAX_CORES}")
        for name, core in self._named_cores().items():
            check_floats(name, core, "rows, rank before, columns, rank after", rank=4)
        check_specs(self.tensors(), self.shape.tensor_specs())
        check_padding_idx(self.padding_idx, self.num_embeddings)
        if self.row_order is not None:
            checked_row_order(self.row_order, self.num_embeddings, self.padding_idx)
        for name, core in self._named_cores().items():
            check_finite(name, core, ("row index", "rank before", "column index", "rank after"))

    @classmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> TTShape:
        """Return the sizes that a file declares.

        Args:
            num_embeddings: Number of rows n.
            embedding_dim: Number of columns d.
            attributes: Attributes of the method.
            value_type: Dtype of the cores.

        Returns:
            The checked sizes.

        Raises:
            BadInputError: An attribute is missing, unknown or out of range, or does not fit n or d.
        """
        names = {"num_embeddings", "row_shape", "col_shape", "ranks"}
        ordered = {"has_row_order"} & attributes.keys()
        if attributes.keys() != names | ordered:
            raise BadInputError(f"attributes: got {sorted(attributes)}, expected {sorted(names)}")
        for name in ("row_shape", "col_shape", "ranks"):
            if not isinstance(attributes[name], list):
                raise BadInputError(f"{name}: got {attributes[name]!r:.80}, expected a list")
        if ordered and attributes["has_row_order"] is not True:
            raise BadInputError(f"has_row_order: got {attributes['has_row_order']!r:.80}, expected true or none")
        row_shape, col_shape, ranks = (tuple(attributes[name]) for name in ("row_shape", "col_shape", "ranks"))
        shape = TTShape(attributes["num_embeddings"], row_shape, col_shape, ranks, value_type, bool(ordered))
        for name, got in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if type(got) is not int or got != getattr(shape, name):
                raise BadInputError(f"{name}: got {got!r:.80}, expected {getattr(shape, name)} as in the attributes")
        return shape

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        """Return the table of a file's tensors.

        Args:
            tensors: The cores, and the order of rows, by name.
            attributes: Attributes of the method.
            padding_idx: The row that is exactly zero, or None.

        Returns:
            The checked table.

        Raises:
            BadInputError: A tensor or attribute is missing, or does not fit the others.
        """
        row_order = tensors.get("row_order")
        names = [f"core_{k}" for k in range(len(tensors) - (row_order is not None))]
        if tensors.keys() - {"row_order"} != set(names):
            raise BadInputError(f"tensors: got {sorted(tensors)}, expected {names}, or these and row_order")
        num_embeddings: Any = attributes.get("num_embeddings")
        table = cls(tuple(tensors[name] for name in names), num_embeddings, padding_idx, row_order)
        table.check_declared(cls.shape_from(table.num_embeddings, table.embedding_dim, attributes, table.value_type))
        return table

    @property
    def shape(self) -> TTShape:
        """All sizes."""
        rows, befores, columns, afters = zip(*(core.shape for core in self.cores), strict=True)
        ordered = self.row_order is not None
        return TTShape(self.num_embeddings, rows, columns, (befores[0], *afters), self.value_type, ordered)

    @property
    def value_type(self) -> str:
        """Dtype of the rows, ``float32`` or ``float16``."""
        return str(self.cores[0].dtype)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the cores and, if there is one, the order of rows; not copied."""
        return self._named_cores() if self.row_order is None else {**self._named_cores(), "row_order": self.row_order}

    def _named_cores(self) -> dict[str, NDArray[np.floating[Any]]]:
        return {f"core_{k}": core for k, core in enumerate(self.cores)}

    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the rows of ids in float64, [*ids.shape, d]; errors as for :meth:`rows`."""
        return self._products(ids, self.cores)

    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the sum of |products| of every element, float64 [*ids.shape, d]: the rows of |cores|."""
        return self._products(ids, tuple(np.abs(core) for core in self.cores))

    def _products(self, ids: ArrayLike, cores: tuple[NDArray[Any], ...]) -> NDArray[np.float64]:
        ids = checked_ids(ids, self.num_embeddings)
        flat = ids.reshape(-1) if self.row_order is None else self.row_order[ids.reshape(-1)]
        rows = np.empty((len(flat), self.embedding_dim))
        for block in self._blocks(len(flat)):
            rows[block] = _chain(cores, np.unravel_index(flat[block], self.shape.row_shape))
        if self.padding_idx is not None:
            rows[flat == self.padding_idx] = 0.0
        return rows.reshape(*ids.shape, self.embedding_dim)

    def _blocks(self, count: int) -> Iterator[slice]:
        step = max(1, BLOCK_NUMBERS // self.shape.state)
        return (slice(start, start + step) for start in range(0, count, step))


def _chain(cores: tuple[NDArray[Any], ...], digits: tuple[NDArray[np.intp], ...]) -> NDArray[np.float64]:
    """Multiply the slices of each id from left to right, then take the trace.

    Args:
        cores: [I_k, R_{k-1}, J_k, R_k].
        digits: i_1 ... i_N, each [B].

    Returns:
        float64 [B, d].
    """
    count, ring = len(digits[0]), cores[0].shape[1]
    state = np.broadcast_to(np.eye(ring), (count, ring, ring))  # [B, R_0 * columns so far, R_k]
    for core, digit in zip(cores, digits, strict=True):
        _, before, columns, after = core.shape
        step = core[digit].astype(np.float64).reshape(count, before, columns * after)
        state = (state @ step).reshape(count, -1, after)
    rows: NDArray[np.float64] = np.einsum("brcr->bc", state.reshape(count, ring, -1, ring))
    return rows
