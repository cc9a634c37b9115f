"""DPQ, packed: integer codes and value tables (Chen, Li and Sun 2020, Differentiable Product Quantization).

    row(id)[j * s : (j + 1) * s] = values[j, code(id, j)]          for groups j = 0 ... D - 1, s = d / D

int8 values are multiplied by value_scales[j], in float32. Rows may have scales, :mod:`edge_embed.packed.row_scales`.
The last group of an imported table may be narrower: then s > d / D, and columns from d on are not part of a row.
With shared subspaces one value table serves all groups. SX and VQ, trained or frozen, are packed in this form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.packed.arrays import check_floats, check_specs
from edge_embed.packed.bits import bits_for, check_below, pack, row_blocks, unpack
from edge_embed.packed.dpq_shape import VALUE_BYTES, DPQShape
from edge_embed.packed.dpq_values import check_values, scaled
from edge_embed.packed.ids import check_padding_idx, checked_ids
from edge_embed.packed.packed_form import PackedTable
from edge_embed.packed.row_scales import check_row_scale_codes, check_row_scales, scaled_rows
from edge_embed.packed.sizes import check_count

_RARE_TENSORS = ("value_scales", "row_scale_codes", "row_scales")


@suggests_keywords
@dataclass(frozen=True, eq=False, repr=False)
class PackedDPQ(PackedTable):
    """Packed DPQ table of two arrays, plus one for int8 values and two for scales of rows.

    Attributes:
        codes: uint8 [n, row_bytes], packed as drawn in :mod:`edge_embed.packed.bits`.
        values: float32, float16 or int8 [D, K, s], or [1, K, s] for shared subspaces; finite, int8 from -127 to 127.
            Rows have the same dtype; they are float32 for int8 values and for rows with scales.
        num_groups: Number of groups D.
        padding_idx: Row that is exactly +0.0 and whose stored bytes are zero, or None.
        value_scales: float32 [D], or [1], positive: factors of int8 values. None for float values.
        row_scale_codes: uint8 [n]: code of each row's scale, 0 for the padding row; None without scales of rows.
        row_scales: float32 [S], S <= 256: factors of rows; +0.0 or more. None without scales of rows.
        unused_columns: Number of columns at the end of the last group that are not part of rows, d = D s -
            unused_columns.

    Raises:
        BadInputError: A shape, dtype, size or value is wrong. :meth:`check_codes`, which reads the whole table, checks
            the codes themselves.
    """

    codes: NDArray[np.uint8]
    values: NDArray[np.floating[Any] | np.int8]
    num_groups: int
    padding_idx: int | None = None
    value_scales: NDArray[np.float32] | None = None
    row_scale_codes: NDArray[np.uint8] | None = None
    row_scales: NDArray[np.float32] | None = None
    unused_columns: int = 0
    method: ClassVar[str] = "dpq"

    def __post_init__(self) -> None:
        _check_ranks(self.codes, self.values)
        groups: object = self.num_groups
        if type(groups) is not int or groups < 1:
            raise BadInputError(f"num_groups: got {groups!r:.80}, expected a positive integer")
        check_count("unused_columns", self.unused_columns, least=0)
        if self.row_scales is not None:
            check_floats("row_scales", self.row_scales, "scales", rank=1, types=("float32",))
        expected = self.shape.tensor_specs()
        if self.tensors().keys() != expected.keys():
            raise BadInputError(
                f"tensors: got {list(self.tensors())} with {self.value_type} values, expected {list(expected)}"
            )
        check_specs(self.tensors(), expected)
        check_padding_idx(self.padding_idx, self.num_embeddings)
        check_values(self.values, self.value_scales)
        if self.row_scales is not None:
            check_row_scales(self.row_scales, self._largest)

    @classmethod
    def from_codes(
        cls,
        codes: NDArray[np.integer[Any]],
        values: NDArray[np.floating[Any] | np.int8],
        padding_idx: int | None = None,
        value_scales: NDArray[np.float32] | None = None,
    ) -> Self:
        """Return a table with packed integer codes.

        Args:
            codes: Integers in 0 ... K - 1, shape [n, D]. The padding row is stored as zeros, whatever it holds.
            values: float32, float16 or int8 [D, K, s] or [1, K, s].
            padding_idx: The row that is exactly zero, or None.
            value_scales: float32 [D] or [1] of int8 values, else None.

        Returns:
            The packed table.

        Raises:
            BadInputError: A code, shape or dtype is wrong.
        """
        _check_ranks(codes, values)
        packed = pack(codes, bits_for(values.shape[1]))
        table = cls(packed, values, codes.shape[1], padding_idx, value_scales)
        if padding_idx is not None:
            packed[padding_idx] = 0
        table.check_codes()
        return table

    @classmethod
    def from_rows(cls, rows: NDArray[np.floating[Any]]) -> Self:
        """Return a table of one group whose codes number its rows, which are its values.

        Args:
            rows: float32 or float16 [n, d], at most 65,536 rows.

        Raises:
            BadInputError: More rows, another dtype, or numbers that are not finite.
        """
        values = rows if len(rows) > 1 else np.concatenate([rows, np.zeros_like(rows)])  # at least two codes
        return cls(pack(np.arange(len(rows))[:, np.newaxis], bits_for(len(values))), values[np.newaxis], 1)

    @classmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> DPQShape:
        """Return the sizes that a file declares.

        Args:
            num_embeddings: Number of rows n.
            embedding_dim: Number of columns d.
            attributes: Attributes of the method.
            value_type: Dtype of the values.

        Returns:
            The checked sizes.

        Raises:
            BadInputError: An attribute is missing, unknown or out of range.
        """
        names = {"bits", "num_codes", "num_groups", "share_subspaces"}
        rare = {"num_row_scales", "unused_columns"} & attributes.keys()
        if attributes.keys() != names | rare:
            raise BadInputError(f"attributes: got {sorted(attributes)}, expected {sorted(names)}")
        for name in rare:  # stored only if not zero
            check_count(name, attributes[name])
        shape = DPQShape(
            num_embeddings,
            embedding_dim,
            attributes["num_codes"],
            attributes["num_groups"],
            attributes["share_subspaces"],
            value_type,
            **{name: attributes[name] for name in rare},
        )
        bits = attributes["bits"]
        if type(bits) is not int or bits != shape.bits:
            raise BadInputError(f"bits: got {bits!r}, expected {shape.bits} for {shape.num_codes} codes")
        return shape

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, NDArray[Any]],
        attributes: Mapping[str, Any],
        padding_idx: int | None = None,
    ) -> Self:
        """Return the table of a file's tensors after a check of every code.

        Args:
            tensors: The arrays by name.
            attributes: Attributes of the method.
            padding_idx: The row that is exactly zero, or None.

        Returns:
            The checked table.

        Raises:
            BadInputError: A tensor or attribute is missing, or does not fit the others.
        """
        if tensors.keys() - set(_RARE_TENSORS) != {"codes", "values"}:
            raise BadInputError(f"tensors: got {sorted(tensors)}, expected ['codes', 'values']")
        groups: Any = attributes.get("num_groups")
        unused: Any = attributes.get("unused_columns", 0)
        rare = {name: tensors.get(name) for name in _RARE_TENSORS}
        table = cls(tensors["codes"], tensors["values"], groups, padding_idx, unused_columns=unused, **rare)
        table.check_declared(cls.shape_from(table.num_embeddings, table.embedding_dim, attributes, table.value_type))
        table.check_codes()
        return table

    @property
    def shape(self) -> DPQShape:
        """All sizes."""
        tables, num_codes, group_width = self.values.shape
        shared = tables == 1 and self.num_groups != 1
        dim = group_width * self.num_groups - self.unused_columns
        num_row_scales = 0 if self.row_scales is None else len(self.row_scales)
        sizes = num_codes, self.num_groups, shared, self.value_type, num_row_scales, self.unused_columns
        return DPQShape(len(self.codes), dim, *sizes)

    @property
    def num_embeddings(self) -> int:
        """Number of rows n."""
        return len(self.codes)

    @property
    def num_codes(self) -> int:
        """Codes per group, K."""
        return self.shape.num_codes

    @property
    def bits(self) -> int:
        """Bits per code, ceil(log2 K)."""
        return self.shape.bits

    @property
    def row_bytes(self) -> int:
        """Bytes of the codes of one row."""
        return self.shape.row_bytes

    @property
    def value_type(self) -> str:
        """Dtype of the values, ``float32``, ``float16`` or ``int8``."""
        return str(self.values.dtype)

    @property
    def row_type(self) -> str:
        """Dtype of the rows: :attr:`value_type`, or ``float32`` if there are scales."""
        return super().row_type if self.row_scales is None else "float32"

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, not copied."""
        rare = {name: getattr(self, name) for name in _RARE_TENSORS}
        return {
            "codes": self.codes,
            "values": self.values,
            **{name: array for name, array in rare.items() if array is not None},
        }

    def codes_of(self, ids: ArrayLike) -> NDArray[np.uint8 | np.uint16]:
        """Return the codes of some rows: [*ids.shape, D], uint8 up to K = 256, else uint16.

        Args:
            ids: Integers of any dtype and shape.

        Returns:
            The unpacked codes.

        Raises:
            BadInputError: The ids are not integers.
            IdOutOfRangeError: An id is negative or at least n.
        """
        return unpack(self.codes[checked_ids(ids, self.num_embeddings)], self.bits, self.num_groups)

    def rows(self, ids: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the rows of ids, the exact reference for every kernel and exported file.

        Args:
            ids: Integers of any dtype and shape, rank 0 and empty included.

        Returns:
            [*ids.shape, d], of :attr:`row_type`. Memory is bounded by a small multiple of that.

        Raises:
            BadInputError: The ids are not integers, or a stored code is not below K.
            IdOutOfRangeError: An id is negative or at least n.
        """
        ids = checked_ids(ids, self.num_embeddings)
        codes = self.codes_of(ids)  # [*ids, D]
        if codes.size and codes.max() >= self.num_codes:
            self.check_codes()  # names the row
        tables = 0 if self.shape.shared else np.arange(self.num_groups)
        rows: NDArray[Any] = self.values[tables, codes]  # [*ids, D, s]
        if self.value_scales is not None:
            rows = scaled(rows, self.value_scales)
        rows = rows.reshape(*ids.shape, self.num_groups * self.shape.group_width)[..., : self.embedding_dim]
        if self.row_scale_codes is not None and self.row_scales is not None:
            rows = scaled_rows(rows, self.row_scales[self.row_scale_codes[ids]])
        if self.padding_idx is not None:
            rows[ids == self.padding_idx] = 0.0
        return rows

    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return :meth:`rows` as float64. Every implementation computes with exactly these numbers."""
        return self.rows(ids).astype(np.float64)

    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return |row|, float64 [*ids.shape, d]: an element is one term, not a sum."""
        return np.abs(self.rows_float64(ids))

    def check_codes(self) -> None:
        """Check all codes, block by block.

        Raises:
            BadInputError: A code is K or more, a spare bit is set, or the padding row is not zero. The message names
                the row and the group.
        """
        spare_mask = 0xFF << (8 - (8 * self.row_bytes - self.num_groups * self.bits)) & 0xFF
        for block in row_blocks(self.num_embeddings, 8 * self.row_bytes):
            stored = self.codes[block]
            spare = np.flatnonzero(stored[:, -1] & spare_mask)
            if spare.size:
                row = block.start + int(spare[0])
                raise BadInputError(f"codes: row {row}: got spare bits set in its last byte, expected zeros")
            check_below(unpack(stored, self.bits, self.num_groups), self.num_codes, first_row=block.start)
        if self.padding_idx is not None and self.codes[self.padding_idx].any():
            group = int(np.flatnonzero(self.codes_of(self.padding_idx))[0])
            raise BadInputError(f"codes: row {self.padding_idx} (padding), group {group}: expected zeros")
        if self.row_scale_codes is not None and self.row_scales is not None:
            check_row_scale_codes(self.row_scale_codes, len(self.row_scales), self.padding_idx)

    @property
    def _largest(self) -> float:
        """Upper bound of |number| of a row before the row is scaled."""
        largest = np.abs(self.values.astype(np.float32)).max(axis=(1, 2))  # [D or 1]
        return float((largest if self.value_scales is None else largest * self.value_scales).max())


def _check_ranks(codes: NDArray[Any], values: NDArray[Any]) -> None:
    if codes.ndim != 2 or values.ndim != 3:
        shapes = f"codes {list(codes.shape)}, values {list(values.shape)}"
        raise BadInputError(f"{shapes}: expected [rows, row bytes] and [groups, codes, width]")
    check_floats("values", values, "groups, codes, width", rank=3, types=tuple(VALUE_BYTES))
