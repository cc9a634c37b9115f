"""The fake Hub, with the real client of this environment, in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils._http import close_session

import edge_embed
from tests.bundle.conftest import saved
from tests.hub.fake_hub import TOKEN, FakeHub

__all__ = ["saved"]


@pytest.fixture(scope="session")
def bundle(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a bundle, not to be changed."""
    folder = tmp_path_factory.mktemp("hub") / "next_words"
    edge_embed.export(saved, "onnx", folder, bundle=True, progress=lambda *_: None)
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Server that the client uses in place of the Hub, with an empty cache."""
    with FakeHub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
        close_session()


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of the files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
