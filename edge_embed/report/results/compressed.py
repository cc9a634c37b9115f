"""The result of `edge_embed.compress`, for people and for programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from edge_embed.report.results.exported import Opened
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.model_source import NO_FACTS, SourceFacts
from edge_embed.report.results.shown import Shown

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
        trials: settings that were tried.
        baselines: rows of integers to compare with, where they are not among the trials.
        is_zero: whether all rows of the dense table are zero, and so those of the compressed one.
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
    baselines: tuple[Trial, ...] = ()
    is_zero: bool = False


@dataclass(frozen=True, repr=False)
class CompressReport(Shown):
    """What became of the dense tables of a model.

    Attributes:
        tables: that rows are looked up of, and others that were asked for.
        dense_bytes: of all numbers of the model as it was; of an ONNX model, of its files.
        written_bytes: of the files that were written, where these are counted.
        source: what was decided about the file of the model, and what of it is not in the model.
        opened: where an ONNX or TFLite file was opened before it got its name.
    """

    tables: tuple[CompressedTable, ...]
    dense_bytes: int
    written_bytes: int | None = None
    source: SourceFacts = NO_FACTS
    opened: Opened = field(default_factory=Opened)
    view = "edge_embed.report.views.compressed:render"

    @property
    def compressed_bytes(self) -> int:
        """Of all numbers, or of the files, of the model with packed tables."""
        if self.written_bytes is not None:
            return self.written_bytes
        found = (table.fidelity for table in self.tables if table.fidelity)
        return self.dense_bytes - sum(one.dense_bytes - one.packed_bytes for one in found)

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "dense_bytes": self.dense_bytes,
            "compressed_bytes": self.compressed_bytes,
            "tables": [
                {**asdict(table), "fidelity": None if table.fidelity is None else table.fidelity.to_json()}
                for table in self.tables
            ],
            "source": asdict(self.source),
            "opened": asdict(self.opened),
        }
