"""Self-contained page from a template: text is escaped, pictures are inline SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.report.views.html.figures import Picture

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Grid:
    """Table of a page; columns in ``numbers`` are aligned right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Section:
    """Part of a page.

    Attributes:
        title: heading of the section.
        text: a sentence below it.
        grid: a table.
        pictures: pictures side by side.
        lines: outcomes and texts of checks: ``("passed", "node: ...")``.
    """

    title: str
    text: str = ""
    grid: Grid | None = None
    pictures: Sequence[Picture] = ()
    lines: Sequence[tuple[str, str]] = ()


def check_html() -> None:
    """Check that the packages of an HTML report are installed, before any work starts.

    Raises:
        BadInputError: if jinja2 or matplotlib is not installed.
    """
    try:
        import jinja2  # noqa: F401, PLC0415
        import matplotlib  # noqa: F401, PLC0415
    except ImportError as error:
        remedy = 'python -m pip install "edge-embed[report]", or leave --html out'
        raise BadInputError(f"HTML report: {error}: {remedy}") from error


def make_page(title: str, verdict: tuple[str, str], sections: Sequence[Section], facts: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        title: heading and title.
        verdict: outcome (``passed``, ``failed``, ``not run``) and a sentence.
        sections: sections in order.
        facts: facts at the end of the page, by name: versions, machine, seed.
    """
    import jinja2  # noqa: PLC0415

    loader = jinja2.FileSystemLoader(_HERE)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html.j2").render(
        title=title, verdict=verdict, sections=sections, facts=facts, style=(_HERE / "page.css").read_text("utf-8")
    )
