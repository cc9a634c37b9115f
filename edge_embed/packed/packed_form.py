"""Interface of every packed form: the contract between methods, the file format and the exporters."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.methods import Parts
from edge_embed.packed.floats import rounded

Use = Literal["rows", "bag", "logits", "topk"]

_FEWEST_ROWS, _MOST_ROWS = 16, 4096  # read at a time


class TensorSpec(NamedTuple):
    """Name of a numpy dtype, and a shape."""

    dtype: str
    shape: tuple[int, ...]


class TableShape(Protocol):
    """All sizes of a packed table, known and checked before any byte of it is read."""

    @property
    def num_embeddings(self) -> int:
        """Number of rows n."""

    @property
    def embedding_dim(self) -> int:
        """Number of columns d."""

    @property
    def value_type(self) -> str:
        """Dtype of the tensors that rows are computed from, ``float32`` or ``float16``; for DPQ also ``int8``."""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""

    @property
    def compression_ratio(self) -> float:
        """Bits of the dense float32 table / stored bits, by the formula of the method's paper."""

    @property
    def plain(self) -> Self:
        """Sizes of the table that plain nodes use; other nodes add an order or scales of rows."""

    def with_rows(self, num_embeddings: int) -> Self:
        """Return the sizes of a table with this number of rows and the same bytes a row."""

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors, ready for JSON."""

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of the tensors by name, in the order of the arguments of every operator."""


class PackedTable(ABC):
    """Compressed table as plain arrays; ``rows`` is the exact reference for everything computed from it."""

    method: ClassVar[str]

    if TYPE_CHECKING:  # a field of some forms: dataclasses would use a property as its default

        @property
        def num_embeddings(self) -> int:
            """Number of rows n."""

    def __repr__(self) -> str:
        """Return sizes, without the numbers."""
        size = f"{self.shape.num_embeddings} x {self.embedding_dim}, {self.nbytes:,} bytes"
        return f"{type(self).__name__}({size}, {self.compression_ratio:.1f}x)"

    @property
    @abstractmethod
    def shape(self) -> TableShape:
        """All sizes."""

    @property
    @abstractmethod
    def padding_idx(self) -> int | None:
        """The row that is exactly zero, or None."""

    @property
    @abstractmethod
    def value_type(self) -> str:
        """Dtype of the tensors that rows are computed from, ``float32`` or ``float16``; for DPQ also ``int8``."""

    @abstractmethod
    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the rows of ids from the stored numbers in float64, [*ids.shape, d]; errors as for :meth:`rows`."""

    @abstractmethod
    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return sum |terms| of every element, [*ids.shape, d].

        The rounding error of another implementation is proportional to it, in units of its roundoff.
        """

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, in the order of the arguments of every operator."""

    @classmethod
    @abstractmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> TableShape:
        """Return the sizes that a file declares; raise `BadInputError` if they are invalid."""

    @classmethod
    @abstractmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        """Return the form after a check of every stored value; a `BadInputError` names the first bad one."""

    @property
    def row_type(self) -> str:
        """Dtype of the rows: :attr:`value_type`, or ``float32`` if that is ``int8``."""
        return "float32" if self.value_type == "int8" else self.value_type

    @property
    def embedding_dim(self) -> int:
        """Number of columns d."""
        return self.shape.embedding_dim

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.shape.nbytes

    @property
    def compression_ratio(self) -> float:
        """Bits of the dense float32 table / stored bits, by the formula of the method's paper."""
        return self.shape.compression_ratio

    @property
    def is_zero(self) -> bool:
        """Return whether all rows, not only a padding row, are zero: it is untrained, or a penalty was too high."""
        n, begin, count = self.shape.num_embeddings, 0, _FEWEST_ROWS  # decide most tables in little memory
        while begin < n:
            if self.rows_float64(np.arange(begin, min(begin + count, n))).any():
                return False
            begin, count = begin + count, min(2 * count, _MOST_ROWS)
        return n > 1

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors, ready for JSON."""
        return self.shape.attributes()

    def rows(self, ids: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the rows of ids, the exact reference for every kernel and exported file.

        Args:
            ids: Integers of any dtype and shape, rank 0 and empty included.

        Returns:
            [*ids.shape, d], of :attr:`row_type`: :meth:`rows_float64`, rounded once.

        Raises:
            BadInputError: The ids are not integers.
            IdOutOfRangeError: An id is negative or at least n.
        """
        return rounded(self.rows_float64(ids), self.row_type)

    def check_declared(self, declared: TableShape) -> None:
        """Raise `BadInputError` unless the tensors are those that a file declares.

        Args:
            declared: Sizes that the file declares.

        Raises:
            BadInputError: Their sizes differ.
        """
        if declared != self.shape:
            raise BadInputError(f"attributes: got {declared}, expected {self.shape} as in the tensors")


def settings_of(packed: PackedTable) -> dict[str, Any]:
    """Return the settings of a table beside its method and size, by name: ``num_codes``, ``ranks``, ..."""
    found = {key: value for key, value in vars(packed.shape).items() if key not in ("num_embeddings", "embedding_dim")}
    return found | {"padding_idx": packed.padding_idx}


def check_form(packed: object, form: type[PackedTable]) -> None:
    """Raise `BadInputError` unless ``packed`` is of class ``form``, which the layer is made from."""
    if not isinstance(packed, form):
        raise BadInputError(f"packed: got a {type(packed).__name__}, expected a {form.__name__}")


METHODS: Parts[type[PackedTable]] = Parts("packed")
