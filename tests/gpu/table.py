"""`Table`: the results of one check, as they are written into the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Results of one check.

    Attributes:
        title: what was checked.
        columns: names of the columns.
        rows: results as texts; one that begins with FAILED makes the command fail.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def failures(self) -> int:
        """Number of results that failed."""
        return sum(value.startswith("FAILED") for row in self.rows for value in row)

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return f"## {self.title}\n\n" + "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def outcome(work: Callable[[], str]) -> str:
    """Return the result of some work, or FAILED with the first line of its error."""
    try:
        return work()
    except Exception as error:  # every check is to be reported
        text = (str(error).strip() or "no message").splitlines()[0]
        return f"FAILED: {type(error).__name__}: {text:.200}"


def verdict(ok: bool) -> str:
    """Return the text of a bound that holds or not."""
    return "yes" if ok else "FAILED"


def _cell(text: str) -> str:
    return text.replace("|", "/")
