"""ANT, packed: anchors and a sparse transform in CSR (Liang et al. 2021, Anchor & Transform, section 2).

    row(i) = weight_scale * sum_t weights[t] * anchors[anchor_ids[t]]     t = row_offsets[i] ... row_offsets[i + 1] - 1

This is row i of the paper's T A with T >= 0 sparse. A row without entries is zero, and so is the padding row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.packed.ant_csr import check_csr
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.ant_transform import OnBlock, csr_from_dense
from edge_embed.packed.arrays import check_finite, check_floats, check_specs
from edge_embed.packed.ids import check_padding_idx, checked_ids
from edge_embed.packed.packed_form import PackedTable
from edge_embed.packed.segments import BLOCK_NUMBERS, blocks_of, entries_of, reduce_pieces

_NAMES = ("row_offsets", "anchor_ids", "weights", "weight_scale", "anchors")


@suggests_keywords
@dataclass(frozen=True, eq=False, repr=False)
class PackedANT(PackedTable):
    """Packed ANT table of five arrays.

    Attributes:
        row_offsets: int32 [n + 1]; start of the entries of each row, from 0 to the number of nonzeros.
        anchor_ids: uint8, uint16 or uint32 [nnz], the smallest that holds A - 1; increasing within a row.
        weights: float32, float16 or int8 [nnz]; positive and finite.
        weight_scale: float32 [1]; 1.0 unless the weights are int8.
        anchors: float32 or float16 [A, d]; finite. Rows have the same dtype.
        padding_idx: Row that has no entries and is therefore exactly +0.0, or None.

    Raises:
        BadInputError: A shape, dtype, size or value is wrong; the message names the row, entry or anchor.
    """

    row_offsets: NDArray[np.int32]
    anchor_ids: NDArray[np.unsignedinteger[Any]]
    weights: NDArray[np.floating[Any] | np.int8]
    weight_scale: NDArray[np.float32]
    anchors: NDArray[np.floating[Any]]
    padding_idx: int | None = None
    method: ClassVar[str] = "ant"

    def __post_init__(self) -> None:
        check_floats("anchors", self.anchors, "anchors, columns", rank=2)
        for name in _NAMES[:-1]:
            if getattr(self, name).ndim != 1:
                raise BadInputError(f"{name}: got shape {list(getattr(self, name).shape)}, expected one dimension")
        check_specs(self.tensors(), self.shape.tensor_specs())
        check_padding_idx(self.padding_idx, self.num_embeddings)
        self.check_rows()
        self._check_scale()
        check_finite("anchors", self.anchors, ("anchor", "column"))

    @classmethod
    def from_dense(
        cls,
        transform: NDArray[np.floating[Any]],
        anchors: NDArray[np.floating[Any]],
        padding_idx: int | None = None,
        weight_type: str = "float32",
        on_block: OnBlock | None = None,
    ) -> Self:
        """Return a table with the nonzeros of a trained transform.

        Args:
            transform: T >= 0, any float dtype [n, A]. The padding row is stored empty, whatever it holds.
            anchors: float32 or float16 [A, d].
            padding_idx: The row that is exactly zero, or None.
            weight_type: ``float32``, ``float16`` or ``int8``: weights = round(127 T / max T), half to even, and
                ``weight_scale`` = max T / 127. Weights that round to zero are dropped.
            on_block: Called with the number of stored rows after each block. The transform is read twice before the
                first row is stored; the number is 0 until then.

        Returns:
            The packed table.

        Raises:
            BadInputError: An entry is negative, not finite or beyond the dtype (the message names row and anchor), or a
                shape or dtype is wrong.
        """
        if transform.ndim != 2 or anchors.ndim != 2 or transform.shape[1] != len(anchors):
            got = f"transform {list(transform.shape)}, anchors {list(anchors.shape)}"
            raise BadInputError(f"{got}: expected [rows, anchors] and [anchors, columns]")
        check_padding_idx(padding_idx, len(transform))
        csr = csr_from_dense(transform, padding_idx, weight_type, on_block or (lambda done: None))
        return cls(*csr, anchors, padding_idx)

    @classmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> ANTShape:
        """Return the sizes that a file declares.

        Args:
            num_embeddings: Number of rows n.
            embedding_dim: Number of columns d.
            attributes: Attributes of the method.
            value_type: Dtype of the anchors.

        Returns:
            The checked sizes.

        Raises:
            BadInputError: An attribute is missing, unknown or out of range.
        """
        names = {"num_anchors", "num_nonzeros", "weight_type"}
        if attributes.keys() != names:
            raise BadInputError(f"attributes: got {sorted(attributes)}, expected {sorted(names)}")
        return ANTShape(
            num_embeddings,
            embedding_dim,
            attributes["num_anchors"],
            attributes["num_nonzeros"],
            attributes["weight_type"],
            value_type,
        )

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        """Return the table of a file's tensors.

        Args:
            tensors: The five arrays by name.
            attributes: Attributes of the method.
            padding_idx: The row that is exactly zero, or None.

        Returns:
            The checked table.

        Raises:
            BadInputError: A tensor or attribute is missing, or does not fit the others.
        """
        if tensors.keys() != set(_NAMES):
            raise BadInputError(f"tensors: got {sorted(tensors)}, expected {sorted(_NAMES)}")
        table = cls(**tensors, padding_idx=padding_idx)
        table.check_declared(cls.shape_from(table.num_embeddings, table.embedding_dim, attributes, table.value_type))
        return table

    @property
    def shape(self) -> ANTShape:
        """All sizes."""
        anchors, columns = self.anchors.shape
        types = (str(self.weights.dtype), self.value_type)
        return ANTShape(len(self.row_offsets) - 1, columns, anchors, len(self.weights), *types)

    @property
    def num_embeddings(self) -> int:
        """Number of rows n."""
        return len(self.row_offsets) - 1

    @property
    def value_type(self) -> str:
        """Dtype of the rows, ``float32`` or ``float16``."""
        return str(self.anchors.dtype)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the five arrays, not copied."""
        return {name: getattr(self, name) for name in _NAMES}

    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the rows of ids in float64, [*ids.shape, d]; errors as for :meth:`rows`."""
        return self._sums(ids, magnitudes=False)

    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return weight_scale * sum |weights * anchors| of every element, float64 [*ids.shape, d]."""
        return self._sums(ids, magnitudes=True)

    def check_rows(self) -> None:
        """Check the whole transform, block by block, as a new table does.

        Raises:
            BadInputError: The offsets do not fit; an anchor id is A or more, or not above the previous one in its row;
                a weight is not positive and finite; or the padding row has entries. The message names the row.
        """
        check_csr(self.row_offsets, self.anchor_ids, self.weights, self.shape.num_anchors, self.padding_idx)

    def _sums(self, ids: ArrayLike, magnitudes: bool) -> NDArray[np.float64]:
        """Return rows, or the sums of their absolute terms, in blocks of bounded size."""
        ids = checked_ids(ids, self.num_embeddings)
        flat = ids.reshape(-1)
        starts = self.row_offsets[flat].astype(np.int64)  # [B]
        counts = self.row_offsets[flat + 1] - starts  # [B]
        rows = np.zeros((len(flat), self.embedding_dim))
        for block in blocks_of(counts, max(1, BLOCK_NUMBERS // self.embedding_dim)):
            entries = entries_of(starts[block], counts[block])  # [t]
            anchors = self.anchors[self.anchor_ids[entries]].astype(np.float64)  # [t, d]
            terms = self.weights[entries, np.newaxis] * (np.abs(anchors) if magnitudes else anchors)
            rows[block] = reduce_pieces(np.add, terms, counts[block])
        rows *= np.float64(self.weight_scale[0])
        return rows.reshape(*ids.shape, self.embedding_dim)

    def _check_scale(self) -> None:
        scale = self.weight_scale[0]
        if self.weights.dtype == np.int8:
            if not np.isfinite(scale) or scale <= 0:
                raise BadInputError(f"weight_scale: got {scale}, expected a positive finite number")
        elif scale != 1:
            raise BadInputError(f"weight_scale: got {scale}, expected 1.0 for {self.weights.dtype} weights")
