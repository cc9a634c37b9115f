"""Facts that a reader reports about the file of a model: its decisions, and parts that are not in the model."""

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_LINES = 12


@dataclass(frozen=True)
class LeftOut:
    """Part of a file that is not in the model.

    Attributes:
        what: name of the part, such as ``optimizer`` or ``output layer``.
        reason: why it is not in the model, or its purpose.
        count: number of rows, tensors or entries; None if there is nothing to count.
        nbytes: bytes in the file, or in a runtime that had the part; None if unknown.
    """

    what: str
    reason: str
    count: int | None = None
    nbytes: int | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f", {self.count:,}"
        nbytes = "" if self.nbytes is None else f", {self.nbytes:,} bytes"
        return f"left out: {self.what}{count}{nbytes} ({self.reason})"


@dataclass(frozen=True)
class SourceFacts:
    """Decisions about a file, and its parts that are not in the model.

    Attributes:
        remarks: decisions, a sentence each.
        left_out: parts that are not in the model.
    """

    remarks: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def lines(self) -> list[str]:
        """Return all facts as printable lines; a long list is cut and ends with the number of further lines."""
        lines = [*self.remarks, *_shortened(map(str, self.left_out))]
        return ["".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line) for line in lines]


NO_FACTS = SourceFacts()


def _shortened(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    more = len(found) - _MOST_LINES
    return found if more <= 0 else [*found[:_MOST_LINES], f"left out: {more} more (--json lists them)"]
