"""Growth since the baseline, described in one finding: amount, cause, parts, and the command that accepts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_embed.report.results.finding import Finding

GROWTH_OF = "growth of "  # prefix of the names of growth findings
_ZIPPED = "growth of zipped"
_WHOLE = ("on disk", "zipped")


@dataclass(frozen=True)
class Change:
    """Setting that differs from the baseline.

    Attributes:
        what: ``table <name>``, ``table <name>: <setting>``, or a package that exports.
        before: value in the baseline; ``none`` for a new table.
        now: value now; ``none`` for a removed table.
    """

    what: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.what} {self.before} -> {self.now}"


def changed(changes: Sequence[Change]) -> str:
    """Describe all changes, or state that there are none."""
    unchanged = "no settings, tables or versions, only numbers, nodes or strings"
    return "; ".join(map(str, changes)) or unchanged


def is_growth(finding: Finding) -> bool:
    """Return whether a finding is growth beyond its limit."""
    return finding.status == "failed" and finding.requirement == "size" and finding.name.startswith(GROWTH_OF)


def growth_words(failed: Sequence[Finding], changes: Sequence[Change], grown: Mapping[str, int], accept: str) -> str:
    """Describe all failed findings of growth in one sentence.

    Args:
        failed: the failed findings of growth.
        changes: changes of settings.
        grown: bytes now less bytes in the baseline, by name of the size.
        accept: the command that makes the new state the baseline.
    """
    where = ", ".join(f"{name} {more:+,}" for name, more in grown.items() if more and name not in _WHOLE)
    beyond = ", ".join(finding.name.removeprefix(GROWTH_OF) for finding in failed)
    keys = ", ".join(
        dict.fromkeys("size.zipped_growth" if finding.name == _ZIPPED else "size.growth" for finding in failed)
    )
    total = f"on disk {grown.get('on disk', 0):+,} bytes"
    remedy = f"; to accept it: {accept}" if accept else ""
    parts = f"; bytes: {where}" if where else ""
    return (
        f"{total} since the baseline; changed: {changed(changes)}{parts}; more than allowed ({keys}): {beyond}{remedy}"
    )
