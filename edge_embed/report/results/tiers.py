"""Plan of a tiered table, for people and for programs."""

from dataclasses import dataclass

GIVEN, EQUAL, MEASURED = "given", "equal", "calibration"  # origins of frequencies, beside "order"


@dataclass(frozen=True)
class Tier:
    """Rows of one format.

    Attributes:
        rows: number of rows.
        format: format in words, such as ``int8`` or ``DPQ K=16 D=25``.
        nbytes: bytes of its codes, values and scales.
        share: share of all counts that its rows have.
        relative_error: ||C - E|| / ||E|| over its rows, all alike.
    """

    rows: int
    format: str
    nbytes: int
    share: float
    relative_error: float


@dataclass(frozen=True)
class TierPlan:
    """Tiers of a table, the most frequent rows first.

    Attributes:
        text: all tiers in one line.
        tiers: tiers.
        map_bytes: bytes that say which tier a row has; 0 if rows are sorted by frequency.
        counts: origin of the frequencies: ``given``, ``order`` if they are assumed from the order of the rows,
            ``calibration`` if the curvature of the outputs by each row stands for them, or ``equal`` without any.
        equal_error: relative error if all rows were equally frequent.
        other_error: relative error under the other counts that were given; None without them.
        other_share: share of these counts that the rows of the first tiers, all but the last, have; None without them.
    """

    text: str
    tiers: tuple[Tier, ...]
    map_bytes: int
    counts: str
    equal_error: float
    other_error: float | None = None
    other_share: float | None = None

    def __str__(self) -> str:
        return self.text
