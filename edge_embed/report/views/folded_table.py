"""`FoldedTable`: a table that neither cuts nor breaks words."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import measure_renderables
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edge_embed.report.views.words import cell

_ENDLESS = 1 << 20  # columns


class FoldedTable(Table):
    """Table that neither cuts nor breaks words: users copy names from it into options.

    If whole words do not fit into the width, each row is printed as a list, one below the other. Texts are not markup:
    names may come from files of other people.
    """

    def add_column(self, header: RenderableType = "", footer: RenderableType = "", **options: Any) -> None:
        """Add a column."""
        super().add_column(_shown(header), footer, **{"overflow": "fold"} | options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*map(_shown, cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, then the table or its stacked rows."""
        title, caption, self.title, self.caption = self.title, self.caption, None, None
        try:
            if title:
                yield _shown(title, "table.title")
            widths = self._widths(console, options)
            for column, width in zip(self.columns, widths, strict=False):
                column.width = width
            yield from super().__rich_console__(console, options) if widths else stacked(self)
            if caption:
                yield _shown(caption, "table.caption")
        finally:
            self.title, self.caption = title, caption

    def _widths(self, console: Console, options: ConsoleOptions) -> list[int]:
        """Return the width of each column for whole words, or an empty list if they do not fit.

        Space that is left goes first to columns that need little more.
        """
        endless = options.update(width=_ENDLESS)
        wanted = [measure_renderables(console, endless, [column.header, *column.cells]) for column in self.columns]
        widths = [size.minimum for size in wanted]
        left = options.max_width - sum(widths) - 3 * len(widths) - 1  # an edge, and a space on both sides
        if left < 0:
            return []
        ascending = sorted(range(len(widths)), key=lambda at: wanted[at].span)
        for done, at in enumerate(ascending):
            more = min(wanted[at].span, left // (len(widths) - done))
            widths[at], left = widths[at] + more, left - more
        return widths


def stacked(table: Table) -> Iterator[RenderableType]:
    """Yield the rows of a table one below the other, each as a list of its columns."""
    titles = [_shown(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for place, (title, shown) in enumerate(zip(titles, map(_shown, cells), strict=True)):
            if shown:
                found = Text.assemble(title, ": " if title else "", shown)
                yield Padding(found, (0, 0, 0, 2 if place else 0), expand=False)


def _shown(text: Any, style: str = "") -> Text:
    shown = text.copy() if isinstance(text, Text) else cell(str(text or ""))
    shown.stylize(style)
    return shown
