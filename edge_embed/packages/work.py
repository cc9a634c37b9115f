"""State of a package that is being made, which its layout reads and completes."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from edge_embed.packages.checks import check_library
from edge_embed.packages.platforms import Build, Platform
from edge_embed.report.results.packaged import NotMade
from edge_embed.report.results.targets import Evidence

# The libraries of a package, each with a line of facts and the builds that it holds.
Details = dict[Path, tuple[str, tuple[Build, ...]]]
_SUFFIXES = (".so", ".dylib", ".dll", ".a")


@dataclass
class Work:
    """State of a package that is being made.

    Attributes:
        platform: its platform.
        trees: folder with ``include`` and ``lib`` of each build.
        ran: how the libraries of a build were executed, and the instruction sets.
        not_executed: builds that were not executed.
        not_made: parts that were left out.
    """

    platform: Platform
    trees: dict[Build, Path] = field(default_factory=dict)
    ran: dict[Build, tuple[Evidence, str]] = field(default_factory=dict)
    not_executed: list[NotMade] = field(default_factory=list)
    not_made: list[NotMade] = field(default_factory=list)

    def check(self, folder: Path, builds: tuple[Build, ...], include: Path) -> Details:
        """Inspect every library in a folder and below, which must hold these builds."""
        found = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
        return {path: (check_library(path, self.platform, builds, include), builds) for path in found}


def copy_tree(tree: Path, folder: Path) -> None:
    """Copy a tree without the list of hashes of the cache."""
    shutil.copytree(tree, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".sha256.json"))
