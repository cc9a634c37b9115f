"""A dense table that was found in a model, and which of those are to be compressed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from torch import Tensor

from edge_embed.errors import BadInputError, suggested
from edge_embed.fitting.worth import WORTH

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
        held_bytes: of the table in the model, where they are others than those of its numbers.
        is_output: whether it is an output layer of which no rows are looked up: told of, and left unless it is named.
    """

    name: str
    weight: Tensor
    padding_idx: int | None
    uses: int
    looks_up: bool
    reason: str = ""
    rotates: Rotates = "beside"
    held_bytes: int | None = field(default=None, kw_only=True)
    is_output: bool = field(default=False, kw_only=True)

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
            hold a twentieth of the model; output layers are told of, and left.
        numbers: of the whole model.
        without: what there is instead, of a model without a table.

    Raises:
        BadInputError: for a name that no table has, a table that has to stay though it is named, or none to compress.
    """
    by_name = {table.name: table for table in tables}
    shown = "there are " + (
        ", ".join(repr(name) for name, table in by_name.items() if table.looks_up or table.is_output)
        or f"none: {without}"
    )
    for name in names:
        if name not in by_name:
            raise BadInputError(f"got {name!r:.200}, expected the name of a table: {suggested(name, by_name)}{shown}")
        if by_name[name].reason:
            raise BadInputError(f"{name}: cannot be compressed: {by_name[name].reason}")
    told = [table for table in by_name.values() if table.looks_up or table.is_output or table.name in names]
    wanted = [_judged(table, names, numbers) for table in told]
    check_some(wanted, without)
    return wanted


def check_some(tables: Collection[Table], without: str = "") -> None:
    """Refuse a model of which every table has to stay.

    Args:
        tables: with the reasons.
        without: what there is instead, where no rows are looked up.

    Raises:
        BadInputError: names every table with its reason.
    """
    if all(table.reason for table in tables):
        reasons = [f"{table.name}: {table.reason}" for table in tables]
        reasons += [] if any(table.looks_up for table in tables) else [without]
        raise BadInputError(f"the model has no table to compress: {'; '.join(reasons)}")


def too_small(name: str, weight: Tensor, numbers: int) -> str:
    """Why a table stays unless it is named: it is a small part of a model of so many numbers; empty if it is none."""
    share = weight.numel() / max(1, numbers)
    return "" if share >= WORTH else f"{share:.1%} of the model: {named(name)}"


def named(name: str) -> str:
    """How a table is compressed that is left unless it is named."""
    return f"give its name to compress it (--module {name})"


def _judged(table: Table, names: Collection[str], numbers: int) -> Table:
    if table.reason or table.name in names:
        return table
    if names:
        return replace(table, reason="not among the names that were given")
    if table.looks_up:
        return replace(table, reason=too_small(table.name, table.weight, numbers))
    what = f"an output layer of {table.nbytes:,} bytes, of which no rows are looked up"
    return replace(table, reason=f"{what}: {named(table.name)}")
