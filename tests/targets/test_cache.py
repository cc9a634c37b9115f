"""A folder of the cache is complete or not there, whoever fetches it, and whatever goes wrong."""

import threading

import pytest

from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.target import NotRunError


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "edge-embed"


def test_it_is_fetched_once_and_then_found(cache):
    fetched = []

    def fetch(folder):
        fetched.append(folder)
        (folder / "file").write_text("content")

    assert fetch_once("thing-1", fetch) == fetch_once("thing-1", fetch) == cached_folder("thing-1")
    assert (cache / "thing-1/file").read_text() == "content"
    assert len(fetched) == 1
    assert [path.name for path in cache.iterdir()] == ["thing-1"]


def test_nobody_sees_a_half_of_it(cache):
    def fail(folder):
        (folder / "half").write_text("")
        assert not cached_folder("thing-1").exists()
        raise NotRunError("no connection")

    with pytest.raises(NotRunError, match="no connection"):
        fetch_once("thing-1", fail)
    assert list(cache.iterdir()) == []


def test_two_at_once_get_the_same(cache):
    both_fetch = threading.Barrier(2)

    def fetch(folder):
        both_fetch.wait(10)
        (folder / "file").write_text("content")

    found = []
    threads = [threading.Thread(target=lambda: found.append(fetch_once("thing-1", fetch))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache / "thing-1"] * 2
    assert [path.name for path in cache.rglob("*")] == ["thing-1", "file"]


def test_a_cache_that_cannot_be_written_is_named(cache):
    cache.write_text("a file in its place")
    with pytest.raises(NotRunError, match=r"edge-embed/thing-1 cannot be made.*XDG_CACHE_HOME"):
        fetch_once("thing-1", lambda folder: None)
