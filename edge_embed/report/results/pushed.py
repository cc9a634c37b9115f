"""Result of `edge-embed push`, for people and for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class PushReport(Shown):
    """Report of an upload to the Hub.

    Attributes:
        repo_id: id of the repository, ``OWNER/NAME``.
        revision: branch.
        commit: hash of the commit that has all files.
        url: address of the repository.
        files: bytes by name of the file.
        changed: whether this upload made the commit; False if the branch had these files already.
    """

    repo_id: str
    revision: str
    commit: str
    url: str
    files: Mapping[str, int]
    changed: bool

    view = "edge_embed.report.views.pushed:render"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys."""
        return {
            "schema_version": SCHEMA_VERSION,
            "repo_id": self.repo_id,
            "revision": self.revision,
            "commit": self.commit,
            "url": self.url,
            "files": [{"name": name, "bytes": size} for name, size in self.files.items()],
            "changed": self.changed,
        }
