"""View of a result of `edge-embed package` on the terminal."""

from rich.console import Group, RenderableType

from edge_embed.report.results.packaged import NotMade, PackagedFile, PackageReport
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import cell


def render(report: PackageReport) -> RenderableType:
    """Return the libraries, the parts that were left out, and the folder."""
    table = FoldedTable("library", "bytes", "", "", title=f"Package for {report.platform}")
    table.title_justify = "left"
    table.columns[1].justify = "right"
    for file in report.libraries:
        table.add_row(file.path, f"{file.bytes:,}", _proof(file), file.detail)
    written = f"wrote {report.folder} ({len(report.files)} files), built by {_and(report.toolchains)}"
    left = [cell(_line("not executed", part)) for part in report.not_executed]
    left += [cell(_line("not made", part)) for part in report.not_made]
    return Group(table, *left, cell(written))


def _proof(file: PackagedFile) -> str:
    return f"{file.proof} ({file.evidence})" if file.evidence else file.proof


def _line(verdict: str, part: NotMade) -> str:
    return f"{verdict}: {part.what}: {part.reason}"


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names)
