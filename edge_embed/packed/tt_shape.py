"""Sizes of a tensor-train table, computed from its row shape, column shape and ranks.

    n <= I_1 ... I_N     d = J_1 ... J_N     core k: I_k R_{k-1} J_k R_k numbers     R_0 = R_N

R_0 = 1 is a tensor train, R_0 > 1 a tensor ring. The compression ratio follows the paper (Hrinchuk et al. 2020,
Tensorized Embedding Layers, Table 1): numbers of the full layer / numbers of all cores. The paper sorts its vocabulary
and stores no order. The n numbers of a stored order are counted too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from edge_embed.errors import BadInputError
from edge_embed.packed.floats import FLOAT_BYTES, check_float_type
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.packed.row_order import check_ordered_rows
from edge_embed.packed.sizes import MAX_SIZE, check_count, check_total

MIN_CORES, MAX_CORES = 2, 6
MAX_STATE = 1 << 22
"""Maximum of numbers that a lookup holds per row. Without it, a few small cores could require any amount of memory."""


@dataclass(frozen=True)
class TTShape:
    """Numbers that determine every size of a tensor-train or tensor-ring table.

    Attributes:
        num_embeddings: Rows n, at least 1.
        row_shape: I_1 ... I_N with I_1 ... I_N >= n; N = 2 to 6.
        col_shape: J_1 ... J_N; d is their product.
        ranks: R_0 ... R_N, the last equal to the first.
        value_type: Dtype of the cores and of the rows: ``float32`` or ``float16``.
        has_row_order: Whether the row of each id is stored too, int32 [n].

    Raises:
        BadInputError: One of them is out of range, or they do not fit each other; a size does not fit 63 bits; or a
            lookup would hold more than ``MAX_STATE`` numbers per row.
    """

    num_embeddings: int
    row_shape: tuple[int, ...]
    col_shape: tuple[int, ...]
    ranks: tuple[int, ...]
    value_type: str = "float32"
    has_row_order: bool = False

    def __post_init__(self) -> None:
        check_count("num_embeddings", self.num_embeddings)
        cores = len(self.row_shape)
        if not MIN_CORES <= cores <= MAX_CORES:
            raise BadInputError(f"row_shape: got {cores} factors, expected {MIN_CORES} to {MAX_CORES}")
        for name, factors, length in (
            ("row_shape", self.row_shape, cores),
            ("col_shape", self.col_shape, cores),
            ("ranks", self.ranks, cores + 1),
        ):
            if len(factors) != length:
                raise BadInputError(f"{name}: got {len(factors)} numbers, expected {length} for {cores} cores")
            for index, factor in enumerate(factors):
                check_count(f"{name}[{index}]", factor)
        if self.ranks[0] != self.ranks[-1]:
            raise BadInputError(f"ranks: got {_short(self.ranks)}, expected the last equal to the first")
        if not self.num_embeddings <= self.num_rows <= MAX_SIZE:
            expected = f"expected {self.num_embeddings} (num_embeddings) to {MAX_SIZE}"
            raise BadInputError(f"row_shape: got {_short(self.row_shape)} with product {self.num_rows}, {expected}")
        check_float_type("value_type", self.value_type)
        if self.has_row_order:
            check_ordered_rows(self.num_embeddings)
        check_total(self.num_embeddings, self.embedding_dim, self.nbytes)
        if self.state > MAX_STATE:
            raise BadInputError(
                f"col_shape {_short(self.col_shape)} and ranks {_short(self.ranks)}: a lookup would hold {self.state} "
                f"numbers per row, expected at most {MAX_STATE}; use smaller ranks"
            )

    @property
    def num_rows(self) -> int:
        """I_1 ... I_N, at least n; ids from n on are still refused."""
        return math.prod(self.row_shape)

    @property
    def embedding_dim(self) -> int:
        """Number of columns d = J_1 ... J_N."""
        return math.prod(self.col_shape)

    @property
    def state(self) -> int:
        """Numbers of the largest partial product of one row, max over k of R_0 J_1 ... J_k R_k."""
        columns = [math.prod(self.col_shape[: k + 1]) for k in range(len(self.col_shape))]
        return self.ranks[0] * max(width * rank for width, rank in zip(columns, self.ranks[1:], strict=True))

    @property
    def num_parameters(self) -> int:
        """Number of numbers in all cores."""
        return sum(math.prod(spec.shape) for spec in self._core_specs().values())

    @property
    def nbytes(self) -> int:
        """Bytes of all cores, and of the order of rows."""
        return FLOAT_BYTES[self.value_type] * self.num_parameters + 4 * self.num_embeddings * self.has_row_order

    @property
    def compression_ratio(self) -> float:
        """32 n d / (32 sum_k I_k R_{k-1} J_k R_k), the paper's ratio; with float16 cores 16 instead of the second 32.

        An order of rows adds 32 n to the denominator.
        """
        return 32 * self.num_embeddings * self.embedding_dim / (8 * self.nbytes)

    @property
    def plain(self) -> Self:
        """Sizes of the table that plain nodes use; other nodes add an order or scales of rows."""
        return replace(self, has_row_order=False)

    def with_rows(self, num_embeddings: int) -> Self:
        """Return the sizes of a table with this number of rows and the same bytes a row."""
        row_shape = self.row_shape if num_embeddings == self.num_embeddings else (num_embeddings, 1)  # low rank
        return replace(self, num_embeddings=num_embeddings, row_shape=row_shape)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors, including n, which the cores do not show."""
        ordered = {"has_row_order": True} if self.has_row_order else {}
        return {
            "num_embeddings": self.num_embeddings,
            "row_shape": list(self.row_shape),
            "col_shape": list(self.col_shape),
            "ranks": list(self.ranks),
            **ordered,
        }

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of ``core_0`` ..., [I_k, R_{k-1}, J_k, R_k], and of ``row_order``, [n], if present."""
        ordered = {"row_order": TensorSpec("int32", (self.num_embeddings,))} if self.has_row_order else {}
        return {**self._core_specs(), **ordered}

    def _core_specs(self) -> dict[str, TensorSpec]:
        factors = zip(self.row_shape, self.ranks, self.col_shape, self.ranks[1:], strict=False)
        return {f"core_{k}": TensorSpec(self.value_type, shape) for k, shape in enumerate(factors)}


def _short(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))
