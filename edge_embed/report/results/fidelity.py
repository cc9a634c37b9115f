"""How near a compressed table is to the dense one, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CosineBand:
    """Rows of similar frequency.

    Attributes:
        name: such as ``most frequent 1%``.
        rows: how many.
        mean: of their cosines.
        least: of them.
    """

    name: str
    rows: int
    mean: float
    least: float


@dataclass(frozen=True)
class Fidelity:
    """A compressed table beside the dense one. Rows of zeros have no cosine, and the padding row counts nowhere.

    Attributes:
        relative_error: ||C - E|| / ||E||, Frobenius; with counts each row counts as often as it comes up.
        mean_cosine: of rows of C and E; with counts each row counts as often as it comes up.
        bands: rows from frequent to rare; all in one without counts.
        neighbours: the share of the 10 nearest rows by cosine that stay the same, over a sample of rows; None where
            there are no 10 others.
        worst: ids of the rows with the least cosines, and these, the least first.
        dense_bytes: of the table as the model holds it.
        packed_bytes: of the packed form.
        zipped_bytes: of the packed form after deflate.
    """

    relative_error: float
    mean_cosine: float
    bands: tuple[CosineBand, ...]
    neighbours: float | None
    worst: tuple[tuple[int, float], ...]
    dense_bytes: int
    packed_bytes: int
    zipped_bytes: int

    @property
    def ratio(self) -> float:
        """Bytes of the dense table over those of the packed one."""
        return self.dense_bytes / self.packed_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {**asdict(self), "ratio": self.ratio}
