"""What a reader says of the file that a model came from: what it decided, and parts that are not in the model."""

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_LINES = 12


@dataclass(frozen=True)
class LeftOut:
    """One part of a file that is not in the model.

    Attributes:
        what: it is, such as ``optimizer`` or ``output layer``.
        reason: why it is not in the model, or what it is for.
        count: of rows, tensors or entries; None where there is nothing to count.
        nbytes: that it takes, in the file or in a runtime that had it; None where nobody knows.
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
    """What was decided about a file.

    Attributes:
        remarks: decisions, a sentence each.
        left_out: parts that are not in the model.
    """

    remarks: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def lines(self) -> list[str]:
        """All of it for the terminal, without what could steer one; of many lines the first, and how many more."""
        lines = [*self.remarks, *_shortened(map(str, self.left_out))]
        return ["".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line) for line in lines]


NO_FACTS = SourceFacts()


def _shortened(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    more = len(found) - _MOST_LINES
    return found if more <= 0 else [*found[:_MOST_LINES], f"left out: {more} more (--json lists them)"]
