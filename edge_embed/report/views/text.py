"""Reports as text for logs, files and notebooks, which have no width of their own."""

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console

AS_IT_IS: dict[str, Any] = {"markup": False, "emoji": False}  # for consoles: names come from files
FILE_WIDTH = 120
_PAGE = '<pre style="line-height: normal; overflow-x: auto">{code}</pre>'


def as_text(show: Callable[[Console], None]) -> str:
    """Return the printed report as text, without colours."""
    text = io.StringIO()
    show(Console(file=text, width=FILE_WIDTH, force_jupyter=False, **AS_IT_IS))
    return text.getvalue().rstrip()


def as_html(show: Callable[[Console], None]) -> str:
    """Return the printed report as HTML, in colours."""
    console = Console(file=io.StringIO(), width=FILE_WIDTH, record=True, force_jupyter=False, **AS_IT_IS)
    show(console)
    return console.export_html(inline_styles=True, code_format=_PAGE)
