"""View of a result of `edge-embed push` on the terminal."""

from rich.console import Group, RenderableType

from edge_embed.report.results.pushed import PushReport
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import cell


def render(report: PushReport) -> RenderableType:
    """Return the files, and the address and the commit that have them."""
    done = "Uploaded to" if report.changed else "Nothing changed: the same files are in"
    files = FoldedTable("file", "bytes", title=f"{done} {report.repo_id}", title_justify="left")
    files.columns[1].justify = "right"
    for name, size in report.files.items():
        files.add_row(name, f"{size:,}")
    return Group(files, *map(cell, (report.url, f"branch {report.revision}, commit {report.commit}")))
