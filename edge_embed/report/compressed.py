"""The result of `edge_embed.compress`, for people and for programs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from edge_embed.report.fidelity import Fidelity

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Trial:
    """One setting that was tried on a table.

    Attributes:
        method: ``dpq``, ...
        setting: its sizes and types.
        nbytes: of the packed table.
        mean_cosine: with the dense rows, over a sample of them.
        relative_error: ||C - E|| / ||E||, over the same rows.
    """

    method: str
    setting: str
    nbytes: int
    mean_cosine: float
    relative_error: float

    def __str__(self) -> str:
        return f"{self.method} {self.setting}"


def pareto_front(trials: Iterable[Trial]) -> list[Trial]:
    """Those than which no other is both no larger and nearer, the smallest first."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: (trial.nbytes, -trial.mean_cosine)):
        if not front or trial.mean_cosine > front[-1].mean_cosine:
            front.append(trial)
    return front


@dataclass(frozen=True)
class CompressedTable:
    """One dense table of a model.

    Attributes:
        name: where it sits in the user's model.
        num_embeddings: rows n.
        embedding_dim: columns d.
        uses: how many layers of the model use it.
        method: ``dpq``, ..., or ``dense`` where it was left.
        setting: its sizes and types.
        reason: why it was left, empty if it was not.
        fidelity: of the compressed table; None where it was left.
        trials: other settings that were tried.
    """

    name: str
    num_embeddings: int
    embedding_dim: int
    uses: int
    method: str = "dense"
    setting: str = ""
    reason: str = ""
    fidelity: Fidelity | None = None
    trials: tuple[Trial, ...] = ()

    def cells(self) -> list[str]:
        """A row for the terminal."""
        size = f"{self.num_embeddings} x {self.embedding_dim}"
        found = self.fidelity
        if found is None:
            return [self.name, size, self.method, "", "", "", "", f"left: {self.reason}"]
        return [
            self.name,
            size,
            self.method,
            f"{found.dense_bytes:,}",
            f"{found.packed_bytes:,} ({found.zipped_bytes:,})",
            f"{found.ratio:.1f}x",
            f"{found.mean_cosine:.4f}",
            self.setting + (f", used {self.uses} times" if self.uses > 1 else ""),
        ]


@dataclass(frozen=True)
class CompressReport:
    """What became of the dense tables of a model."""

    tables: tuple[CompressedTable, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tables": [
                {**asdict(table), "fidelity": None if table.fidelity is None else table.fidelity.to_json()}
                for table in self.tables
            ],
        }

    def render(self) -> RenderableType:
        """Tables for the terminal."""
        columns = ("table", "shape", "method", "dense bytes", "packed (zipped)", "ratio", "mean cosine", "")
        tables = Table(*columns, title="Tables")
        for table in self.tables:
            tables.add_row(*table.cells())
        return Group(tables, *(part for table in self.tables for part in _details(table)))


def _details(table: CompressedTable) -> Sequence[RenderableType]:
    """How near one table is, and what else was tried."""
    found = table.fidelity
    if found is None:
        return []
    near = Table("rows", "how many", "mean cosine", "least", title=f"{table.name}: cosines with the dense rows")
    for band in found.bands:
        near.add_row(band.name, f"{band.rows:,}", f"{band.mean:.4f}", f"{band.least:.4f}")
    worst = ", ".join(f"{row} ({cosine:.2f})" for row, cosine in found.worst)
    lines = [f"relative error {found.relative_error:.4f}", f"worst rows: {worst}"]
    if found.neighbours is not None:
        lines.insert(1, f"of the 10 nearest rows {found.neighbours:.1%} stay the same")
    return [near, "; ".join(lines), *([_front(table)] if len(table.trials) > 1 else [])]


def _front(table: CompressedTable) -> Table:
    front = Table("bytes", "ratio", "mean cosine", "relative error", "setting", title=f"{table.name}: Pareto front")
    for trial in pareto_front(table.trials):
        ratio = 4 * table.num_embeddings * table.embedding_dim / trial.nbytes
        chosen = " (chosen)" if (trial.method, trial.setting) == (table.method, table.setting) else ""
        cells = f"{trial.nbytes:,}", f"{ratio:.1f}x", f"{trial.mean_cosine:.4f}", f"{trial.relative_error:.4f}"
        front.add_row(*cells, f"{trial}{chosen}")
    return front
