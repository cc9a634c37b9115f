"""Result of `edge-embed validate --bundle`, for people and for programs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Ran:
    """Run of the golden pair.

    Attributes:
        way: runtime with its version, and how it ran.
        status: ``passed``, ``failed`` or ``not run``.
        detail: what differs, or the reason; empty if it passed.
        error: the largest absolute error of a float output; None unless it passed.
    """

    way: str
    status: Literal["passed", "failed", "not run"]
    detail: str = ""
    error: float | None = None

    @property
    def words(self) -> str:
        """Return the detail, or the error in words."""
        return self.detail if self.error is None else f"largest absolute error {self.error:.2g}"


@dataclass(frozen=True, repr=False)
class BundleReport(Shown):
    """Report of a bundle whose files have the hashes of its manifest.

    Attributes:
        folder: folder of the bundle.
        name: name of the model.
        made_by: program that wrote it.
        sha256: SHA-256 of the manifest, which identifies the bundle.
        requires: lowest version of each runtime and library.
        files: bytes by name of the file.
        ran: runs of the golden pair.
    """

    folder: Path
    name: str
    made_by: str
    sha256: str
    requires: Mapping[str, str]
    files: Mapping[str, int]
    ran: tuple[Ran, ...]

    view = "edge_embed.report.views.bundled:render"

    @property
    def exit_code(self) -> int:
        """Return 3 if a run failed, 1 if none ran, else 0."""
        if any(run.status == "failed" for run in self.ran):
            return 3
        return 0 if any(run.status == "passed" for run in self.ran) else 1

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "folder": str(self.folder),
            "name": self.name,
            "made_by": self.made_by,
            "sha256": self.sha256,
            "requires": dict(self.requires),
            "files": [{"name": name, "bytes": size} for name, size in self.files.items()],
            "ran": [asdict(run) for run in self.ran],
        }
