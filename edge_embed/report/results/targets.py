"""Results of running a model on targets."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

INSTRUCTIONS = "instructions"  # the name of the counter

Evidence = Literal["executed-native", "executed-emulated", "statically-checked"]


@dataclass(frozen=True)
class Problem:
    """Something that is missing or broken, and the command or step that mends it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class TargetTimes:
    """Wall time on a target, in seconds.

    Attributes:
        create: making the session: reading the file, optimising, allocating; None where there is none.
        first: the first call, cold.
        calls: later calls with the same inputs, one after the other.
    """

    create: float | None
    first: float
    calls: tuple[float, ...]

    def milliseconds(self) -> tuple[str, str, str]:
        """Making the session, the first call, the median of later ones; empty where there is none."""
        call = median(self.calls) if self.calls else None
        create, first, later = (
            "" if seconds is None else f"{1e3 * seconds:,.2f}" for seconds in (self.create, self.first, call)
        )
        return create, first, later


@dataclass(frozen=True)
class TargetInfo:
    """A target as `doctor` lists it.

    Attributes:
        name: as on the command line; what it can be given stands after the colon.
        what: in words.
        evidence: what its results are worth.
        lacks: what is missing here; empty if it can run.
    """

    name: str
    what: str
    evidence: Evidence
    lacks: tuple[Problem, ...]
