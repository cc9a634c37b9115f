"""`Shown`: reports that print as people read them, on a terminal and in a notebook."""

import io
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console, RenderableType
from rich.table import Table

T = TypeVar("T")

FILE_WIDTH = 120  # of tables in logs, files and notebooks, which have no width of their own
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
        self.show(Console(file=text, width=FILE_WIDTH, force_jupyter=False))
        return text.getvalue().rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """As a notebook shows it, in colours."""
        console = Console(file=io.StringIO(), width=FILE_WIDTH, record=True, force_jupyter=False)
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
    """A table that breaks long names and never cuts them: they are copied from it into options."""

    def add_column(self, *arguments: Any, **options: Any) -> None:
        """Add a column."""
        super().add_column(*arguments, **{"overflow": "fold"} | options)
