"""`Shown`: reports that print as people read them, on a terminal and in a notebook."""

import io
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import measure_renderables
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edge_embed.report.words import cell

T = TypeVar("T")

AS_IT_IS: dict[str, Any] = {"markup": False, "emoji": False}  # of consoles: names come from files
FILE_WIDTH = 120  # of tables in logs, files and notebooks, which have no width of their own
_ENDLESS = 1 << 20  # columns
_PAGE = '<pre style="line-height: normal; overflow-x: auto">{code}</pre>'


class Shown:
    """Base of the reports; ``print(report)`` and a notebook show what the command line shows."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for ``json.dumps``."""

    def render(self) -> RenderableType:
        """What rich prints. A report that depends on the console overrides `show` in its place."""
        return ""

    def show(self, console: Console) -> None:
        """Print on a console."""
        console.print(self.render())

    def __str__(self) -> str:
        """As text of 120 columns, without colours."""
        text = io.StringIO()
        self.show(Console(file=text, width=FILE_WIDTH, force_jupyter=False, **AS_IT_IS))
        return text.getvalue().rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """As a notebook shows it, in colours."""
        console = Console(file=io.StringIO(), width=FILE_WIDTH, record=True, force_jupyter=False, **AS_IT_IS)
        self.show(console)
        return console.export_html(inline_styles=True, code_format=_PAGE)


def shown_by_report(kind: type[T]) -> type[T]:
    """Let a result that has a `Shown` as its ``report`` print as that, and not its model number by number."""
    shown: dict[str, Callable[[Any], str]] = {
        "__repr__": lambda result: repr(result.report),
        "_repr_html_": lambda result: result.report._repr_html_(),
    }
    for name, function in shown.items():
        setattr(kind, name, function)
    return kind


class FoldedTable(Table):
    """A table that neither cuts nor breaks words: names are copied from it into options.

    Where whole words do not fit into the width, rows stand one below the other. Texts are no markup: names come from
    files that somebody else made.
    """

    def add_column(self, header: RenderableType = "", footer: RenderableType = "", **options: Any) -> None:
        """Add a column."""
        super().add_column(_shown(header), footer, **{"overflow": "fold"} | options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*map(_shown, cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The title above, then the table, or its rows one below the other."""
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
        """Of each column, for whole words; those that want little more get it first. Empty where they do not fit."""
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
    """The rows of a table one below the other, each as a list of its columns."""
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
