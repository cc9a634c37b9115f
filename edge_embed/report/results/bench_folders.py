"""Result of `edge-embed bench FOLDER FOLDER ...`, for people and for programs.

A ratio is a figure of a session / that of the first session, the baseline: below 1 it needs less.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.session_growth import SessionGrowth
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class TokenTime:
    """Time of a step of the generation: medians over rounds, with their intervals.

    Attributes:
        cpu_seconds: CPU time.
        wall_seconds: wall time.
        cpu_ratio: CPU time / that of the baseline within a round; None for the baseline.
        wall_ratio: the same of wall time.
    """

    cpu_seconds: Interval
    wall_seconds: Interval
    cpu_ratio: Interval | None
    wall_ratio: Interval | None

    def reported(self, threads: int) -> tuple[Interval, Interval | None]:
        """Return time and ratio that are shown: CPU time for one thread, wall time for several threads."""
        return (self.cpu_seconds, self.cpu_ratio) if threads == 1 else (self.wall_seconds, self.wall_ratio)


@dataclass(frozen=True)
class FolderSession:
    """Figures of a folder, with or without the operator library.

    Attributes:
        folder: the folder as it was given.
        operators: ``operator library`` or ``portable body``; empty for a folder without operators of edge-embed.
        token: time of a new token.
        first_token: time of the prompt and the first token.
        memory: memory that a session adds to a fresh process on one thread; its first call is the prompt.
        private_ratio: private bytes after the first call / those of the baseline; None for the baseline, or if
            either was not measured.
        resident_ratio: the same of resident bytes.
        bytes: bytes of all files of the folder, with the operator library only if the session uses it.
        bytes_ratio: these bytes / those of the baseline; None for the baseline.
    """

    folder: str
    operators: str
    token: TokenTime
    first_token: TokenTime
    memory: SessionGrowth
    private_ratio: float | None
    resident_ratio: float | None
    bytes: int
    bytes_ratio: float | None

    @property
    def name(self) -> str:
        """Return folder and operators as a label."""
        return f"{self.folder}, {self.operators}" if self.operators else self.folder


@dataclass(frozen=True, repr=False)
class FolderBench(Shown):
    """Report of `bench` on folders of ONNX Runtime GenAI.

    Attributes:
        seed: seed of prompts and order.
        rounds: number of rounds in the figures.
        threads: threads of every session.
        prompt_tokens: tokens of each prompt.
        new_tokens: tokens that are generated after the first one in a round.
        machine: processor, versions, load.
        method: clocks, order and memory, as a text.
        sessions: the baseline, and the others in the given order.
    """

    seed: int
    rounds: int
    threads: int
    prompt_tokens: int
    new_tokens: int
    machine: Mapping[str, str]
    method: str
    sessions: tuple[FolderSession, ...]
    view = "edge_embed.report.views.bench_folders:render"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
