"""Figure from repeated measurements."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
