"""What every packed form offers: the contract between methods, the file format and the exporters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.methods import Parts
from edge_embed.packed.floats import rounded

Use = Literal["rows", "bag", "logits", "topk"]

_FEWEST_ROWS, _MOST_ROWS = 16, 4096  # that are read at a time


class TensorSpec(NamedTuple):
    """Name of a numpy dtype, and a shape."""

    dtype: str
    shape: tuple[int, ...]


class TableShape(Protocol):
    """All sizes of a packed table, known and checked before a byte of it is read."""

    @property
    def num_embeddings(self) -> int:
        """Rows n."""

    @property
    def embedding_dim(self) -> int:
        """Columns d."""

    @property
    def value_type(self) -> str:
        """Type of what rows are made of, ``float32`` or ``float16``; for DPQ also ``int8``."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""

    @property
    def compression_ratio(self) -> float:
        """Bits of the dense float32 table / bits kept, by the formula of the method's paper."""

    @property
    def plain(self) -> Self:
        """That of the table which plain nodes see, where nodes around them add an order or scales of rows."""

    def with_rows(self, num_embeddings: int) -> Self:
        """That of a table of so many rows, each of which takes what it takes in this one."""

    def attributes(self) -> dict[str, Any]:
        """Attributes that a file stores beside the tensors, ready for JSON."""

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """The tensors, by name, in the order in which every operator takes them."""


class PackedTable(ABC):
    """A compressed table as plain arrays; ``rows`` is the exact oracle for everything made from it."""

    method: ClassVar[str]

    if TYPE_CHECKING:  # a field of some forms: dataclasses would take what stands here for its default

        @property
        def num_embeddings(self) -> int:
            """Rows n."""

    def __repr__(self) -> str:
        """Sizes, without the numbers."""
        size = f"{self.shape.num_embeddings} x {self.embedding_dim}, {self.nbytes:,} bytes"
        return f"{type(self).__name__}({size}, {self.compression_ratio:.1f}x)"

    @property
    @abstractmethod
    def shape(self) -> TableShape:
        """All sizes."""

    @property
    @abstractmethod
    def padding_idx(self) -> int | None:
        """The row that is exactly zero, if any."""

    @property
    @abstractmethod
    def value_type(self) -> str:
        """Type of what rows are made of, ``float32`` or ``float16``; for DPQ also ``int8``."""

    @abstractmethod
    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the embeddings of ids as the stored numbers give them, [*ids.shape, d]; errors as for :meth:`rows`."""

    @abstractmethod
    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return sum |terms| of every element, [*ids.shape, d].

        That is how large an error the arithmetic of another path may make, in units of its rounding.
        """

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """The arrays themselves, by name, in the order in which every operator takes them."""

    @classmethod
    @abstractmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> TableShape:
        """Sizes from what a file declares; a `BadInputError` where it makes no sense."""

    @classmethod
    @abstractmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        """Build the form and check every stored value; a `BadInputError` names the first bad one."""

    @property
    def row_type(self) -> str:
        """Type of the rows: :attr:`value_type`, or ``float32`` where that is ``int8``."""
        return "float32" if self.value_type == "int8" else self.value_type

    @property
    def embedding_dim(self) -> int:
        """Columns d."""
        return self.shape.embedding_dim

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.shape.nbytes

    @property
    def compression_ratio(self) -> float:
        """Bits of the dense float32 table / bits kept, by the formula of the method's paper."""
        return self.shape.compression_ratio

    @property
    def is_zero(self) -> bool:
        """Whether all rows are zero, and not only a padding row: nothing was learned, or a penalty was too high."""
        n, begin, count = self.shape.num_embeddings, 0, _FEWEST_ROWS  # which tell of most tables, and take no memory
        while begin < n:
            if self.rows_float64(np.arange(begin, min(begin + count, n))).any():
                return False
            begin, count = begin + count, min(2 * count, _MOST_ROWS)
        return n > 1

    def attributes(self) -> dict[str, Any]:
        """What a file stores beside the tensors, ready for JSON."""
        return self.shape.attributes()

    def rows(self, ids: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the embeddings of ids: the exact oracle for every kernel and exported file.

        Args:
            ids: Integers of any dtype and shape, rank 0 and empty included.

        Returns:
            [*ids.shape, d], of :attr:`row_type`: :meth:`rows_float64`, rounded once.

        Raises:
            BadInputError: The ids are no integers.
            IdOutOfRangeError: An id is negative or at least n.
        """
        return rounded(self.rows_float64(ids), self.row_type)

    def check_declared(self, declared: TableShape) -> None:
        """Refuse tensors that are not those a file declares.

        Raises:
            BadInputError: Their sizes differ.
        """
        if declared != self.shape:
            raise BadInputError(f"attributes: got {declared}, expected {self.shape} as the tensors have it")


def settings_of(packed: PackedTable) -> dict[str, Any]:
    """Return what a table is made with beside its method and size, by name: ``num_codes``, ``ranks``, ..."""
    found = {key: value for key, value in vars(packed.shape).items() if key not in ("num_embeddings", "embedding_dim")}
    return found | {"padding_idx": packed.padding_idx}


def check_form(packed: object, form: type[PackedTable]) -> None:
    """Raise `BadInputError` unless a layer of the method of ``form`` can be made from ``packed``."""
    if not isinstance(packed, form):
        raise BadInputError(f"packed: got a {type(packed).__name__}, expected a {form.__name__}")


METHODS: Parts[type[PackedTable]] = Parts("packed")
