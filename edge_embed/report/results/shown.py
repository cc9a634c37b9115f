"""`Shown`: base of reports that print as text on a terminal and as HTML in a notebook."""

from abc import abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")

_TEXT = "edge_embed.report.views.text"


class Shown:
    """Base of reports; ``print(report)`` and a notebook show the same as the command line.

    Attributes:
        view: ``module:function`` that renders a report for rich. It is imported when a report is shown, so that a
            result does not depend on its view.
    """

    view: ClassVar[str]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""

    def render(self, **options: Any) -> "RenderableType":
        """Return the renderable that rich prints."""
        module, _, function = self.view.partition(":")
        made: RenderableType = getattr(import_module(module), function)(self, **options)
        return made

    def show(self, console: "Console") -> None:
        """Print on a console."""
        console.print(self.render())

    def __str__(self) -> str:
        """Return the report as text of 120 columns, without colours."""
        text: str = import_module(_TEXT).as_text(self.show)
        return text

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the report as HTML in colours, for a notebook."""
        page: str = import_module(_TEXT).as_html(self.show)
        return page


def shown_by_report(kind: type[T]) -> type[T]:
    """Make a result with a `Shown` as its ``report`` print as that report, without the numbers of its model."""
    shown: dict[str, Callable[[Any], str]] = {
        "__repr__": lambda result: repr(result.report),
        "_repr_html_": lambda result: result.report._repr_html_(),
    }
    for name, function in shown.items():
        setattr(kind, name, function)
    return kind
