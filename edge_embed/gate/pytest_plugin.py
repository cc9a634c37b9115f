"""Plugin that pytest loads if edge-embed is installed: one option, one fixture, and no slow imports."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from edge_embed.gate.checker import Checker

_UPDATE = "--edge-embed-update-baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that updates baselines."""
    parser.getgroup("edge-embed").addoption(
        _UPDATE,
        action="store_true",
        help="Write the baselines of edge_embed.check anew instead of comparing with them; then commit them.",
    )


@pytest.fixture
def edge_embed(request: pytest.FixtureRequest) -> "Checker":
    """Check exported models: ``edge_embed.check(exported, model=..., budget=...)``."""
    from edge_embed.gate.checker import Checker  # noqa: PLC0415

    return Checker(update=bool(request.config.getoption(_UPDATE)))
