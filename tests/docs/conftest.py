"""Folders in which pages ran."""

from collections.abc import Iterator

import pytest

from ..warm import Warm
from .pages import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Folders of pages, each of which runs when it is first asked for."""
    with Warm() as warm:
        yield Runs(tmp_path_factory.mktemp("docs"), warm)
