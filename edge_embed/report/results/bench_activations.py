"""Result of `edge-embed bench` with sparse activations, for people and for programs.

Figures are medians over rounds. A ratio is the time of the peer / our time within a round: above 1 ours is faster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.bench import Figure
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ActivationMeasurement:
    """One activation at one size.

    Attributes:
        use: ``sparsemax``, ``entmax15``, ``entmax``, ``topk_sparsemax`` or ``attention``.
        activation: the function with its alpha or k; for attention that of its probabilities.
        scores: scores in a row.
        batch: rows in a call; of attention the sequences.
        threads: threads of every contender.
        zeros: share of probabilities that are exactly zero.
        ours: figure of our kernel; ``error`` is the largest difference from the definition in float64, relative to
            the largest number there, and time per item is that of a row or sequence.
        peers: figures of all peers.
    """

    use: str
    activation: str
    scores: int
    batch: int
    threads: int
    zeros: float
    ours: Figure
    peers: tuple[Figure, ...]

    @property
    def call(self) -> str:
        """Return a description of the call: sizes, zeros and threads."""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"n = {self.scores:,}, B = {self.batch:,}, {self.zeros:.0%} zeros{threads}"


@dataclass(frozen=True, repr=False)
class ActivationBench(Shown):
    """Report of `bench` with sparse activations.

    Attributes:
        seed: seed of scores and order.
        rounds: number of rounds in the figures.
        machine: processor, versions, load.
        method: inputs, clocks and order, as a text.
        measurements: in the order in which they were made.
    """

    seed: int
    rounds: int
    machine: Mapping[str, str]
    method: str
    measurements: tuple[ActivationMeasurement, ...]
    view = "edge_embed.report.views.bench_activations:render"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
