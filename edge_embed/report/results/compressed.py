"""Result of `edge_embed.compress`, for people and for programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from edge_embed.report.results.calibration import Calibration
from edge_embed.report.results.exported import Opened
from edge_embed.report.results.fidelity import Fidelity
from edge_embed.report.results.model_source import NO_FACTS, SourceFacts
from edge_embed.report.results.shown import Shown
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.report.results.tiers import TierPlan

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Trial:
    """One setting that was tried on a table.

    Attributes:
        method: ``dpq``, ...
        setting: sizes and types of the method.
        nbytes: bytes of the packed table.
        mean_cosine: mean cosine with the dense rows, over a sample of them.
        relative_error: ||C - E|| / ||E||, over the same rows.
        next_layer_error: root mean square of ||(c - e) W^T|| / ||e W^T|| over the same rows, at most 1 for a row. W is
            the weight of the next layer, the only one that takes rows; None if settings are not compared behind it.
    """

    method: str
    setting: str
    nbytes: int
    mean_cosine: float
    relative_error: float
    next_layer_error: float | None = None

    @property
    def closeness(self) -> float:
        """Return what settings are compared by: the mean cosine, or 1 - e^2 / 2 of the error e behind the next layer.

        Both are equal where errors are small, and as long as rows.
        """
        return self.mean_cosine if self.next_layer_error is None else 1 - self.next_layer_error**2 / 2

    def __str__(self) -> str:
        return f"{self.method} {self.setting}"


def pareto_front(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that no other beats in both bytes and closeness, smallest first."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: (trial.nbytes, -trial.closeness)):
        if not front or trial.closeness > front[-1].closeness:
            front.append(trial)
    return front


@dataclass(frozen=True)
class CompressedTable:
    """One dense table of a model.

    Attributes:
        name: name of the table in the user's model.
        num_embeddings: rows n.
        embedding_dim: columns d.
        uses: number of layers of the model that use it.
        method: ``dpq``, ..., or ``dense`` if it was left.
        setting: sizes and types of the method.
        reason: why it was left, empty if it was compressed.
        fidelity: fidelity of the compressed table; None if it was left.
        trials: settings that were tried.
        baselines: rows of integers for comparison, if they are not among the trials.
        is_zero: whether all rows of the dense table, and so of the compressed one, are zero.
        plan: tiers of a tiered table; None for other methods.
        next_layer_error: as in `Trial`, of the compressed table; None if no next layer is known.
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
    plan: TierPlan | None = None
    next_layer_error: float | None = None


@dataclass(frozen=True, repr=False)
class CompressReport(Shown):
    """Report of `compress`.

    Attributes:
        tables: tables of embeddings, and other tables that were requested.
        dense_bytes: bytes of all numbers of the original model; for an ONNX model, bytes of its files.
        written_bytes: bytes of the written files, where these are counted.
        source: decisions about the file of the model, and its parts that are not in the model.
        opened: runtime that opened the ONNX or TFLite file before it got its name.
        texts: predictions of the next token on texts; None if no texts were given.
        calibration: fit of the values to examples; None without any. The figures of tables are those before it.
    """

    tables: tuple[CompressedTable, ...]
    dense_bytes: int
    written_bytes: int | None = None
    source: SourceFacts = NO_FACTS
    opened: Opened = field(default_factory=Opened)
    texts: TextPredictions | None = None
    calibration: Calibration | None = None
    view = "edge_embed.report.views.compressed:render"

    @property
    def compressed_bytes(self) -> int:
        """Return the bytes of all numbers, or of the files, of the model with packed tables."""
        if self.written_bytes is not None:
            return self.written_bytes
        found = (table.fidelity for table in self.tables if table.fidelity)
        return self.dense_bytes - sum(one.dense_bytes - one.packed_bytes for one in found)

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "dense_bytes": self.dense_bytes,
            "compressed_bytes": self.compressed_bytes,
            "tables": [
                asdict(table) | {"fidelity": None if table.fidelity is None else table.fidelity.to_json()}
                for table in self.tables
            ],
            "source": asdict(self.source),
            "opened": asdict(self.opened),
            "texts": None if self.texts is None else asdict(self.texts),
            "calibration": None if self.calibration is None else asdict(self.calibration),
        }
