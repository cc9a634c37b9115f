"""Layout of a package: the folders and files that the tools of a platform expect."""

from pathlib import Path

from edge_embed.packages.checks import check_library
from edge_embed.packages.package import Work, copy_tree
from edge_embed.packages.platforms import Build

_LIBRARIES = (".so", ".dylib", ".dll", ".a")


def lay_out(work: Work, folder: Path) -> dict[Path, tuple[str, tuple[Build, ...]]]:
    """Fill the folder of a package.

    Returns:
        The libraries in it, each with a line of facts and the builds that it holds.
    """
    (build,) = work.trees
    copy_tree(work.trees[build], folder)
    return {path: (check_library(path, work.platform, (build,), folder / "include"), (build,)) for path in libraries(folder)}


def libraries(folder: Path) -> list[Path]:
    """Return the libraries in a folder and below."""
    return sorted(path for path in folder.rglob("*") if path.suffix in _LIBRARIES)
