"""View of a result of `edge-embed validate --bundle` on the terminal."""

from rich.console import Group, RenderableType

from edge_embed.report.results.bundled import BundleReport
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import cell


def render(report: BundleReport) -> RenderableType:
    """Return the files, the runs of the golden pair, and what the bundle requires."""
    files = FoldedTable("file", "bytes", title=f"Bundle {report.folder}")
    files.title_justify = "left"
    files.columns[1].justify = "right"
    for name, size in report.files.items():
        files.add_row(name, f"{size:,}")
    ran = FoldedTable("golden pair", "", "", title="Runs")
    ran.title_justify = "left"
    for run in report.ran:
        ran.add_row(run.way, run.status, run.words)
    requires = ", ".join(f"{name} {version}" for name, version in report.requires.items())
    lines = [f"all {len(report.files)} files have the hashes of the manifest", f"requires {requires} or newer"]
    return Group(files, ran, *map(cell, lines))
