"""Fidelity of a compressed table, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CosineBand:
    """Rows of similar frequency.

    Attributes:
        name: such as ``most frequent 1%``.
        rows: number of rows.
        mean: mean of their cosines.
        least: smallest of their cosines.
    """

    name: str
    rows: int
    mean: float
    least: float


@dataclass(frozen=True)
class Fidelity:
    """Agreement of a compressed table with the dense one. Zero rows have no cosine; the padding row is not counted.

    Attributes:
        relative_error: ||C - E|| / ||E||, Frobenius; counts weight each row by its frequency.
        mean_cosine: mean cosine of rows of C and E; counts weight each row by its frequency.
        bands: rows from frequent to rare; one band without counts.
        neighbours: share of the 10 nearest rows by cosine that stay the same, over a sample of rows; None for fewer
            than 10 other rows.
        worst: (id, cosine) of the rows with the smallest cosines, smallest first.
        dense_bytes: bytes of the table as the model holds it.
        packed_bytes: bytes of the packed form.
        zipped_bytes: bytes of the packed form after deflate.
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
        """Return the bytes of the dense table / bytes of the packed one."""
        return self.dense_bytes / self.packed_bytes

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys."""
        return {**asdict(self), "ratio": self.ratio}
