"""A folder of the cache is complete or absent, for any number of processes and any failure."""

import hashlib
import re
import subprocess
import threading
import zipfile

import pytest

from edge_embed.targets import cache as cache_module
from edge_embed.targets.cache import cached_folder, fetch_once
from edge_embed.targets.pinned import PIP, Pinned, pip_options
from edge_embed.targets.target import NotRunError


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "edge-embed"


def test_folder_is_fetched_once_and_then_found(cache):
    fetched = []

    def fetch(folder):
        fetched.append(folder)
        (folder / "file").write_text("content")

    assert fetch_once("thing-1", fetch) == fetch_once("thing-1", fetch) == cached_folder("thing-1")
    assert (cache / "thing-1/file").read_text() == "content"
    assert len(fetched) == 1
    assert [path.name for path in cache.iterdir()] == ["thing-1"]


def test_folder_is_invisible_until_complete(cache):
    def fail(folder):
        (folder / "half").write_text("")
        assert not cached_folder("thing-1").exists()
        raise NotRunError("no connection")

    with pytest.raises(NotRunError, match="no connection"):
        fetch_once("thing-1", fail)
    assert list(cache.iterdir()) == []


def test_threads_that_fetch_at_once_get_same_folder(cache):
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
    assert [path.name for path in sorted(cache.rglob("*"))] == ["thing-1", ".sha256.json", "file"]


def test_cache_that_cannot_be_written_is_named(cache):
    cache.write_text("a file in its place")
    with pytest.raises(NotRunError, match=r"edge-embed/thing-1 cannot be created.*XDG_CACHE_HOME"):
        fetch_once("thing-1", lambda folder: None)


class TestHashes:
    @pytest.fixture
    def folder(self):
        def fetch(folder):
            (folder / "inner").mkdir()
            (folder / "inner/library.so").write_bytes(b"content")
            (folder / "link").symlink_to("inner/library.so")

        folder = fetch_once("thing-1", fetch)
        cache_module._check.cache_clear()  # as in the next process
        return folder

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda folder: (folder / "inner/library.so").write_bytes(b"Content"), "inner/library.so: got SHA-256"),
            (lambda folder: (folder / "inner/library.so").unlink(), "inner/library.so is missing"),
            (lambda folder: (folder / "inner/more.so").touch(), "inner/more.so is not among the downloaded files"),
            (
                lambda folder: (folder / "__pycache__").mkdir() or (folder / "__pycache__/a.pyc").touch(),
                "a.pyc is not among",
            ),
            (lambda folder: (folder / "link").unlink() or (folder / "link").symlink_to("/etc/passwd"), "link: got"),
            (lambda folder: (folder / ".sha256.json").write_text("[]"), "is not a list of hashes"),
            (lambda folder: (folder / ".sha256.json").write_text("{"), "its list of hashes cannot be read"),
        ],
    )
    def test_changed_folder_is_refused_with_remedy(self, folder, change, said):
        change(folder)
        with pytest.raises(NotRunError, match=f"{re.escape(said)}.*download it again: rm -r {folder}"):
            fetch_once("thing-1", lambda folder: pytest.fail("it is there"))

    def test_folder_of_earlier_version_is_made_again(self, folder):
        (folder / ".sha256.json").unlink()
        (folder / "inner/library.so").write_bytes(b"old")
        assert fetch_once("thing-1", lambda new: (new / "file").touch() or None) == folder
        assert {path.name for path in folder.iterdir()} == {"file", ".sha256.json"}

    def test_folder_is_compared_once_in_a_process(self, folder):
        fetch_once("thing-1", pytest.fail)
        (folder / "inner/library.so").write_bytes(b"later")
        assert fetch_once("thing-1", pytest.fail) == folder


def test_pip_refuses_file_with_another_hash(tmp_path):
    """The package is in a local folder, so that no connection is needed."""
    wheel = tmp_path / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing.py", "")
        archive.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
        archive.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("thing-1.dist-info/RECORD", "")
    right, wrong = hashlib.sha256(wheel.read_bytes()).hexdigest(), "0" * 64
    for digest, name in ((right, "right"), (wrong, "wrong")):
        with pip_options([Pinned("thing", "1", (digest,))]) as options:
            where = ["--no-index", "--find-links", tmp_path, "--target", tmp_path / name]
            done = subprocess.run([*PIP, "install", *options, *where], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (name == "right"), done.stderr
        assert (tmp_path / name / "thing.py").exists() == (name == "right")
    assert "DO NOT MATCH THE HASHES" in done.stderr
