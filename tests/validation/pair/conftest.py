"""One pair for the tests that change copies of it."""

from pathlib import Path

import pytest

from edge_embed.targets.target import NotRunError
from edge_embed.validation import sizes
from tests.validation.pair.models import pair


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def _without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurement of resident memory, whose processes take a second each."""

    def not_measured(*_: object) -> None:
        raise NotRunError("left out")

    monkeypatch.setattr(sizes, "measure_fresh", not_measured)
