"""Results of running a model on targets."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

INSTRUCTIONS = "instructions"  # name of the counter

Evidence = Literal["executed-native", "executed-emulated", "statically-checked"]


@dataclass(frozen=True)
class Problem:
    """A missing or broken thing, and the command or step that repairs it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class TargetTimes:
    """Wall time on a target, in seconds.

    Attributes:
        create: creation of the session: read the file, optimise, allocate; None if there is no session.
        first: the first call, cold.
        calls: later calls with the same inputs, one after the other.
    """

    create: float | None
    first: float
    calls: tuple[float, ...]

    def milliseconds(self) -> tuple[str, str, str]:
        """Return session creation, first call and median of later calls as texts; empty if not measured."""
        call = median(self.calls) if self.calls else None
        create, first, later = (
            "" if seconds is None else f"{1e3 * seconds:,.2f}" for seconds in (self.create, self.first, call)
        )
        return create, first, later


@dataclass(frozen=True)
class TargetInfo:
    """Target as `doctor` lists it.

    Attributes:
        name: name on the command line; its argument follows the colon.
        what: description.
        evidence: kind of evidence that its results give.
        lacks: missing parts; empty if it can run.
    """

    name: str
    what: str
    evidence: Evidence
    lacks: tuple[Problem, ...]
