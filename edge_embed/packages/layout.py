"""Layout of a package: the folders and files that the tools of a platform expect."""

from pathlib import Path

from edge_embed.packages.android import lay_out_android
from edge_embed.packages.apple import lay_out_apple
from edge_embed.packages.web import lay_out_web
from edge_embed.packages.work import Details, Work, copy_tree
from edge_embed.report.results.packaged import NotMade


def lay_out(work: Work, folder: Path) -> Details:
    """Fill the folder of a package, and inspect its libraries."""
    if work.platform.name == "android":
        return lay_out_android(work, folder)
    if work.platform.name == "web":
        return lay_out_web(work, folder)
    if work.platform.binary_format == "Mach-O":
        return lay_out_apple(work, folder)
    ((build, tree),) = work.trees.items()
    copy_tree(tree, folder)
    if work.platform.binary_format == "PE":
        reason = "its objects would call functions of MinGW, which other compilers lack"
        work.not_made.append(NotMade("static library", reason))
    return work.check(folder, (build,), folder / "include")
