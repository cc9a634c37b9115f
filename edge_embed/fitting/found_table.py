"""Dense tables found in a model, and the choice of those to compress."""

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
        name: name of the first layer that uses it, such as ``encoder.embedding``; a bare layer is ``embedding``.
        weight: [n, d], as the model holds it.
        padding_idx: padding row, which is zero and stays so, or which bags ignore.
        uses: number of uses in the model.
        looks_up: whether the model looks up rows; otherwise the table is only the weight of a linear layer.
        reason: reason why the table is not compressed; empty if there is none.
        rotates: place of a rotation of its rows: ``"beside"`` each use as a product, ``"folded"`` into the weight of
            the only layer that uses the rows, or ``"never"`` if a bag reduces them by maximum.
        held_bytes: bytes of the table in the model, if different from those of its numbers.
        adds_up: whether every use adds up rows, as bags of mode ``sum`` and ``mean`` do.
        is_output: whether it is an output layer without lookups; such tables are reported, and compressed only by name.
        next_weight: weight [m, d] of the only layer that takes the rows, or sums of them; None for other uses.
    """

    name: str
    weight: Tensor
    padding_idx: int | None
    uses: int
    looks_up: bool
    reason: str = ""
    rotates: Rotates = "beside"
    held_bytes: int | None = field(default=None, kw_only=True)
    adds_up: bool = field(default=False, kw_only=True)
    is_output: bool = field(default=False, kw_only=True)
    next_weight: Tensor | None = field(default=None, kw_only=True)

    @property
    def nbytes(self) -> int:
        """Bytes of the table in the model."""
        return self.weight.nbytes if self.held_bytes is None else self.held_bytes


Table = TypeVar("Table", bound=FoundTable)


def chosen(
    tables: Iterable[Table],
    names: Collection[str],
    numbers: int,
    without: str = "no dense table has lookups",
) -> list[Table]:
    """Return the tables to report, each with a reason unless it is to be compressed.

    Args:
        tables: all tables that were found.
        names: names of the tables to compress, also of linear layers. Without names, all tables with lookups that hold
            at least 5 % of the parameters are compressed; output layers are reported and left.
        numbers: number of parameters of the model.
        without: description of a model without a table, for messages.

    Raises:
        BadInputError: for an unknown name, a named table that cannot be compressed, or no table to compress.
    """
    by_name = {table.name: table for table in tables}
    shown = "choose from " + (
        ", ".join(repr(name) for name, table in by_name.items() if table.looks_up or table.is_output)
        or f"none, as {without}"
    )
    for name in names:
        if name not in by_name:
            raise BadInputError(f"got {name!r:.200}, expected the name of a table: {suggested(name, by_name)}{shown}")
        if by_name[name].reason:
            raise BadInputError(f"{name}: cannot be compressed: {by_name[name].reason}")
    reported = [table for table in by_name.values() if table.looks_up or table.is_output or table.name in names]
    judged = [_judged(table, names, numbers) for table in reported]
    check_some(judged, without)
    return judged


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
    """Return the reason why a small table is not compressed unless it is named, or an empty string."""
    share = weight.numel() / max(1, numbers)
    return "" if share >= WORTH else f"{share:.1%} of the model: {named(name)}"


def named(name: str) -> str:
    """Return the advice for compressing a table by name."""
    return f"give its name to compress it (--module {name})"


def _judged(table: Table, names: Collection[str], numbers: int) -> Table:
    if table.reason or table.name in names:
        return table
    if names:
        return replace(table, reason="not among the given names")
    if table.looks_up:
        return replace(table, reason=too_small(table.name, table.weight, numbers))
    what = f"an output layer of {table.nbytes:,} bytes without lookups"
    return replace(table, reason=f"{what}: {named(table.name)}")
