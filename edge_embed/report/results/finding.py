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
        name: what was looked at.
        status: ``passed``, ``failed`` or ``not run``, which is never passed.
        detail: the outcome in words, or why it did not run.
        got: the number that was found, None where the outcome is no number.
        limit: the largest (of a metric: the smallest) that passes.
        unit: of both: ``bytes``, ``ratio``, ``absolute error``, ``instructions`` or ``metric``.
        must_run: whether the exit code is 1 where it has not run.
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
        """Whether it must run and has not."""
        return self.must_run and self.status == "not run"

    def sentence(self) -> str:
        """What failed, or must run and has not."""
        what = f"{self.requirement}: {self.name}: "
        if self.status == "failed":
            return what + self.detail
        remedy = "" if self.requirement == "parity" else "; `allow_not_run = true` in the budget lets it pass"
        return f"{what}not run: {self.detail}{remedy}"
