"""One requirement of a check, and its outcome."""

from dataclasses import dataclass
from typing import Literal

from edge_embed.report.results.validation import Status

Requirement = Literal["parity", "size", "latency"]


@dataclass(frozen=True)
class Finding:
    """One requirement and its outcome.

    Attributes:
        requirement: ``parity``, ``size`` or ``latency``.
        name: subject of the check.
        status: ``passed``, ``failed`` or ``not run``, which never counts as passed.
        detail: the outcome as a text, or why it did not run.
        got: the number that was found, None if the outcome is no number.
        limit: the largest number (for a metric: the smallest) that passes.
        unit: unit of got and limit: ``bytes``, ``ratio``, ``absolute error``, ``instructions`` or ``metric``.
        must_run: whether the exit code is 1 if it did not run.
    """

    requirement: Requirement
    name: str
    status: Status
    detail: str
    got: float | None = None
    limit: float | None = None
    unit: str = ""
    must_run: bool = True

    @property
    def is_missing(self) -> bool:
        """Return whether the check is required and did not run."""
        return self.must_run and self.status == "not run"

    def sentence(self) -> str:
        """Describe a finding that failed, or a required one that did not run."""
        what = f"{self.requirement}: {self.name}: "
        if self.status == "failed":
            return what + self.detail
        remedy = "" if self.requirement == "parity" else "; `allow_not_run = true` in the budget allows this"
        return f"{what}not run: {self.detail}{remedy}"
