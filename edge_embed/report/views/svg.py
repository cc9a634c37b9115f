"""SVG files by matplotlib (an extra): text stays text, and the same numbers give the same bytes."""

from pathlib import Path
from typing import TYPE_CHECKING

from edge_embed.errors import BadInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plots(otherwise: str = "") -> None:
    """Check that matplotlib is installed, before any work starts.

    Args:
        otherwise: end of the message: an alternative to the installation.

    Raises:
        BadInputError: if matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401, PLC0415
    except ImportError as error:
        remedy = f"python -m pip install 'edge-embed[report]'{otherwise}"
        raise BadInputError(f"plots: matplotlib cannot be imported ({error}): {remedy}") from error


def write_svg(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "edge-embed"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
