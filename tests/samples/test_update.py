"""Update of a bundle from a server: a right one is used, and after any fault the one in use stays."""

import functools
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from edge_embed.bundle.manifest import BundleManifest
from tests.samples.next_word_bundle import changed_byte, rehash, write_bundle

from python.complete import Completer  # isort: skip
from python.update import UpdateError, bundle_in_use, fetch_from, main, update  # isort: skip


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    return write_bundle(folder / "old", 0), write_bundle(folder / "new", 1)


@pytest.fixture
def shipped(bundles: tuple[Path, Path]) -> Path:
    return bundles[0]


@pytest.fixture
def newer(bundles: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundles[1], tmp_path / "served"))


@pytest.fixture
def address(newer: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(newer))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_newer_bundle_is_used_and_the_shipped_one_is_kept(
    shipped: Path, newer: Path, address: str, tmp_path: Path
) -> None:
    downloads = tmp_path / "downloads"
    assert bundle_in_use(shipped, downloads) == shipped
    assert update(shipped, downloads, fetch_from(address))
    used = bundle_in_use(shipped, downloads)
    assert used.parent == downloads
    assert Completer(used).suggest(["a"]) == Completer(newer).suggest(["a"]) != Completer(shipped).suggest(["a"])
    assert not update(shipped, downloads, fetch_from(address))  # it is the same
    assert sorted(path.name for path in downloads.iterdir()) == sorted(["current", used.name])
    BundleManifest.read(shipped).check_files(shipped)


@pytest.mark.parametrize("name", ["bundle.json", "golden.json", "model.onnx", "vocabulary.json", "README.md", "NOTICE"])
def test_damaged_bundle_is_not_used(shipped: Path, newer: Path, address: str, tmp_path: Path, name: str) -> None:
    changed_byte(newer / name)
    with pytest.raises(UpdateError, match=name):
        update(shipped, tmp_path / "downloads", fetch_from(address))
    assert bundle_in_use(shipped, tmp_path / "downloads") == shipped
    assert [*(tmp_path / "downloads").iterdir()] == []


def test_bundle_with_other_golden_outputs_is_not_used(shipped: Path, newer: Path, address: str, tmp_path: Path) -> None:
    golden = json.loads((newer / "golden.json").read_text())
    golden["outputs"][0]["values"][0] += 1
    (newer / "golden.json").write_text(json.dumps(golden))
    rehash(newer)
    with pytest.raises(UpdateError, match=r"1 of .* values differ"):
        update(shipped, tmp_path / "downloads", fetch_from(address))
    assert bundle_in_use(shipped, tmp_path / "downloads") == shipped


def test_bundle_for_a_newer_library_names_its_version(shipped: Path, newer: Path, address: str, tmp_path: Path) -> None:
    path = newer / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"requires": {"onnxruntime": "99.1"}}))
    with pytest.raises(UpdateError, match=r"expected 99\.1 or newer"):
        update(shipped, tmp_path / "downloads", fetch_from(address))


def test_longer_file_than_the_manifest_states_is_not_read(
    shipped: Path, newer: Path, address: str, tmp_path: Path
) -> None:
    with (newer / "model.onnx").open("ab") as file:
        file.write(b"0" * 1000)
    with pytest.raises(UpdateError, match=r"model\.onnx: got more than"):
        update(shipped, tmp_path / "downloads", fetch_from(address))


def test_later_update_replaces_the_earlier_one(shipped: Path, newer: Path, address: str, tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    update(shipped, downloads, fetch_from(address))
    first = bundle_in_use(shipped, downloads)
    (newer / "NOTICE").write_text("another notice")
    rehash(newer)
    assert update(shipped, downloads, fetch_from(address))
    assert bundle_in_use(shipped, downloads) != first
    assert not first.exists()
    changed_byte(newer / "model.onnx")
    used = bundle_in_use(shipped, downloads)
    (newer / "bundle.json").write_text((newer / "bundle.json").read_text() + " ")
    with pytest.raises(UpdateError):
        update(shipped, downloads, fetch_from(address))
    assert bundle_in_use(shipped, downloads) == used
    Completer(used)


@pytest.mark.parametrize("content", ["", "../old", "0" * 64, "x" * 64, "\udcff"])
def test_damaged_note_of_the_bundle_in_use_selects_the_shipped_one(shipped: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "current").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert bundle_in_use(shipped, tmp_path) == shipped


def test_command_prints_the_folder_to_use(shipped: Path, newer: Path, address: str, tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    for server, words in (
        ("file:///etc", "begins with https:// or http://"),
        ("http://127.0.0.1:9", "cannot be fetched"),
        (address, "updated"),
        (address, "no newer bundle"),
    ):
        done = CliRunner().invoke(main, [str(shipped), str(downloads), server])
        assert done.exit_code == 0
        assert words in done.stderr
        assert done.stdout.strip() == str(bundle_in_use(shipped, downloads))
    assert bundle_in_use(shipped, downloads) != shipped
