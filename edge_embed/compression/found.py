"""A dense table that was found in a model, and which of those are to be compressed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from torch import Tensor

from edge_embed.errors import BadInputError

WORTH = 0.05  # of the numbers of a model: smaller tables cost accuracy and save nothing


Rotates = Literal["beside", "folded", "never"]


@dataclass(frozen=True, eq=False)
class FoundTable:
    """One dense table of a model.

    Attributes:
        name: of the first layer that uses it, such as ``encoder.embedding``; a bare layer is ``embedding``.
        weight: [n, d], as the model holds it.
        padding_idx: the row that is zero and stays so, or that bags leave out.
        uses: how many times the model uses it.
        looks_up: whether rows are looked up; without that it is the weight of a linear layer alone.
        reason: why it stays as it is; empty if it need not.
        rotates: what becomes of a rotation of its rows: a product beside each use, or a part of the weight of the layer
            that alone takes them; never where a bag takes their largest numbers.
    """

    name: str
    weight: Tensor
    padding_idx: int | None
    uses: int
    looks_up: bool
    reason: str = ""
    rotates: Rotates = "beside"
    held_bytes: int | None = field(default=None, kw_only=True)

    @property
    def nbytes(self) -> int:
        """Bytes of the table as the model holds it."""
        return self.weight.nbytes if self.held_bytes is None else self.held_bytes


Table = TypeVar("Table", bound=FoundTable)


def chosen(
    tables: Iterable[Table],
    names: Collection[str],
    numbers: int,
    without: str = "there is no dense one that rows are looked up of",
) -> list[Table]:
    """What is to become of each table: those without a reason to stay are compressed.

    Args:
        tables: all that were found.
        names: of those that are wanted, linear layers too. Without any, all tables that rows are looked up of and that
            hold a twentieth of the model.
        numbers: of the whole model.
        without: what there is instead, of a model without a table.

    Raises:
        BadInputError: for a name that no table has, a table that has to stay though it is named, or none to compress.
    """
    by_name = {table.name: table for table in tables}
    shown = ", ".join(name for name, table in by_name.items() if table.looks_up) or f"none: {without}"
    for name in names:
        if name not in by_name:
            raise BadInputError(f"got {name!r:.200}, expected the name of a table: there are {shown}")
        if by_name[name].reason:
            raise BadInputError(f"{name}: cannot be compressed: {by_name[name].reason}")
    wanted = [_judged(table, names, numbers) for table in by_name.values() if table.looks_up or table.name in names]
    if all(table.reason for table in wanted):
        reasons = "; ".join(f"{table.name}: {table.reason}" for table in wanted)
        raise BadInputError(f"the model has no table to compress: {reasons or without}")
    return wanted


def _judged(table: Table, names: Collection[str], numbers: int) -> Table:
    if table.reason or table.name in names:
        return table
    if names:
        return replace(table, reason="not among the names that were given")
    share = table.weight.numel() / max(1, numbers)
    return table if share >= WORTH else replace(table, reason=f"{share:.1%} of the model: give its name to compress it")
