"""Result of `edge-embed package`."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from edge_embed.report.results.shown import Shown
from edge_embed.report.results.targets import Evidence

SCHEMA_VERSION = 1
Proof = Literal["executed", "checked"]


@dataclass(frozen=True)
class PackagedFile:
    """A file of a package.

    Attributes:
        path: path in the package.
        bytes: its size.
        sha256: its hash.
        proof: ``executed`` if a program ran it, ``checked`` if it was inspected only; empty for texts.
        evidence: how it was executed; None if it was not.
        detail: instruction sets that ran, and facts about the file.
    """

    path: str
    bytes: int
    sha256: str
    proof: Proof | Literal[""] = ""
    evidence: Evidence | None = None
    detail: str = ""


@dataclass(frozen=True)
class NotMade:
    """A part that was left out, or a check that did not run.

    Attributes:
        what: the part.
        reason: the missing tool and its remedy, or the limit of the platform.
    """

    what: str
    reason: str


@dataclass(frozen=True, repr=False)
class PackageReport(Shown):
    """Report of a package.

    Attributes:
        platform: name of the platform.
        folder: folder of the package.
        toolchains: compilers.
        files: all files of the package.
        not_executed: libraries that were checked only, with the reason.
        not_made: parts that were left out, with the reason.
    """

    platform: str
    folder: Path
    toolchains: tuple[str, ...]
    files: tuple[PackagedFile, ...]
    not_executed: tuple[NotMade, ...]
    not_made: tuple[NotMade, ...]

    view = "edge_embed.report.views.packaged:render"

    @property
    def libraries(self) -> Iterable[PackagedFile]:
        """Return the files that were inspected."""
        return [file for file in self.files if file.proof]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "folder": str(self.folder)}
