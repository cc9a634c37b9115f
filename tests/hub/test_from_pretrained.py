"""Downloads: a model that runs here, or an error that names the repository, and files of the manifest alone."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import constants

import edge_embed
from edge_embed.bundle.opened import OpenedBundle
from edge_embed.errors import BadInputError, EdgeEmbedError, OutputError, ParityError
from tests.hub.conftest import files_of
from tests.hub.fake_hub import FakeHub, Repo

NAME = "your-name/next-words"
IDS = np.array([[17, 4, 25]])


def opened(**options: Any) -> Any:
    return edge_embed.from_pretrained(NAME, **options)


@pytest.fixture
def repo(hub: FakeHub, bundle: Path) -> Repo:
    """Repository with a bundle."""
    return hub.add(NAME, files_of(bundle) | {"training.log": b"long", ".gitattributes": b"*.onnx"})


def test_bundle_of_a_repository_computes_what_the_folder_does(hub: FakeHub, bundle: Path) -> None:
    edge_embed.push_to_hub(bundle, NAME)
    model = opened()
    assert isinstance(model, OpenedBundle)
    expected = edge_embed.open_bundle(bundle).run({"ids": IDS})
    np.testing.assert_array_equal(model.run({"ids": IDS})["output"], expected["output"])


def test_files_of_the_manifest_are_downloaded_once(hub: FakeHub, repo: Repo, bundle: Path) -> None:
    folder = opened().folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(files_of(bundle))
    assert hub.downloads()[0] == "bundle.json"
    assert (folder / "model.onnx").is_symlink()
    edge_embed.validate_bundle(folder)
    hub.requests.clear()
    opened()
    assert hub.downloads() == []


def test_cache_is_enough_without_a_connection(hub: FakeHub, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    opened()
    hub.requests.clear()
    opened(local_files_only=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    opened()
    assert hub.requests == []


@pytest.mark.parametrize("way", ["local_files_only", "offline"])
def test_empty_cache_without_a_connection_is_named(
    hub: FakeHub, repo: Repo, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", way == "offline")
    with pytest.raises(BadInputError, match="no complete copy in the cache while outgoing traffic is off"):
        opened(local_files_only=way == "local_files_only")


def test_incomplete_cache_without_a_connection_is_named(hub: FakeHub, repo: Repo) -> None:
    path = opened().folder / "model.onnx"
    path.resolve().unlink()  # its link is left
    with pytest.raises(BadInputError, match="no complete copy in the cache"):
        opened(local_files_only=True)
    opened()
    assert path.is_file()


def test_saved_model_is_a_module(hub: FakeHub, saved: Path) -> None:
    hub.add(NAME, {"model.pt": saved.read_bytes(), "README.md": b"", "other.bin": b"1"})
    model: Any = opened()
    expected = edge_embed.load(saved)(torch.from_numpy(IDS))
    assert torch.equal(model(torch.from_numpy(IDS)), expected)
    assert hub.downloads() == ["model.pt"]
    opened(local_files_only=True)


def test_pickle_of_a_repository_is_not_run(hub: FakeHub, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    torch.save(Evil(), tmp_path / "evil.pt")
    hub.add(NAME, {"model.pt": (tmp_path / "evil.pt").read_bytes()})
    with pytest.raises(BadInputError, match=r"model\.pt"):
        opened()
    assert not (tmp_path / "ran").exists()


def test_revision_selects_branch_or_commit(hub: FakeHub, bundle: Path, saved: Path) -> None:
    report = edge_embed.push_to_hub(bundle, NAME, revision="tiny")
    hub.repos[NAME].commit({"model.pt": saved.read_bytes()})
    for revision in ("tiny", report.commit):
        assert isinstance(opened(revision=revision), OpenedBundle)
    assert not isinstance(opened(), OpenedBundle)
    with pytest.raises(BadInputError, match=f"revision: got 'large', expected a branch, tag or commit of {NAME}"):
        opened(revision="large")


def test_card_edited_on_the_hub_is_no_error(hub: FakeHub, repo: Repo) -> None:
    repo.commit({"README.md": b"A better description."})
    assert (opened().folder / "README.md").read_bytes() == b"A better description."


Change = Callable[[dict[str, bytes]], dict[str, bytes]]


def _manifest(change: Callable[[dict[str, Any]], Any]) -> Change:
    def changed(files: dict[str, bytes]) -> dict[str, bytes]:
        manifest = json.loads(files["bundle.json"])
        change(manifest)
        return files | {"bundle.json": json.dumps(manifest).encode()}

    return changed


HOSTILE: dict[str, tuple[Change, str]] = {
    "other bytes": (
        lambda files: files | {"golden.json": files["golden.json"][:-1] + b" "},
        r"commit \w{40}: .*golden\.json: got SHA-256 .*delete this file first",
    ),
    "other size": (
        lambda files: files | {"model.onnx": b"short"},
        r"commit \w{40}: model\.onnx: got 5 bytes, expected [\d,]+ of bundle\.json",
    ),
    "missing file": (
        lambda files: {name: content for name, content in files.items() if name != "NOTICE"},
        r"got no NOTICE, which bundle\.json names",
    ),
    "name outside": (
        _manifest(lambda manifest: manifest["files"].update({"../evil": {"bytes": 1, "sha256": "0" * 64}})),
        r"'\.\./evil'.*expected the plain name",
    ),
    "stated size": (
        _manifest(lambda manifest: manifest["files"]["NOTICE"].update(bytes=10**15)),
        r"NOTICE: got [\d,]+ bytes, expected 1,000,000,000,000,000 of bundle\.json",
    ),
    "later format": (_manifest(lambda manifest: manifest.update(format_version=2)), "format_version: got 2"),
    "no manifest": (lambda files: files | {"bundle.json": b"[1]"}, r"bundle\.json: got \[1\], expected an object"),
    "no JSON": (lambda files: files | {"bundle.json": b"{"}, r"bundle\.json: is damaged"),
    "large manifest": (
        lambda files: files | {"bundle.json": b" " * (17 << 20)},
        r"bundle\.json: got 17,825,792 bytes, expected at most",
    ),
    "large card": (
        lambda files: files | {"README.md": b" " * (17 << 20)},
        r"README\.md: got 17,825,792 bytes, expected at most",
    ),
    "nothing": (lambda files: {"config.json": b"{}"}, r"without bundle\.json and model\.pt"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_wrong_repositories_are_refused(hub: FakeHub, bundle: Path, tmp_path: Path, case: str) -> None:
    change, problem = HOSTILE[case]
    hub.add(NAME, change(files_of(bundle)))
    with pytest.raises(BadInputError, match=problem) as raised:
        opened()
    assert NAME in str(raised.value) or "bundle.json" in str(raised.value)
    if case != "other bytes":  # found before the model is downloaded
        assert "model.onnx" not in hub.downloads()
    assert not [*tmp_path.rglob("*.incomplete")]
    assert not (tmp_path / "cache" / "evil").exists()


def test_full_disk_is_found_before_the_download(hub: FakeHub, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr("edge_embed.hub.download.shutil.disk_usage", lambda _: usage._replace(free=2000))
    with pytest.raises(BadInputError, match=r"got [\d,]+ bytes to download, expected at most 2,000"):
        opened()
    assert "model.onnx" not in hub.downloads()


def test_golden_outputs_of_another_model_are_found(hub: FakeHub, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    files = repo.commits[repo.branches["main"]]
    golden = json.loads(files["golden.json"])
    golden["outputs"][0]["values"][7] += 0.01
    content = json.dumps(golden).encode()
    manifest = json.loads(files["bundle.json"])
    manifest["files"]["golden.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    repo.commit({"golden.json": content, "bundle.json": json.dumps(manifest).encode()})
    with pytest.raises(ParityError, match="1 of 15 values differ"):
        opened()
    opened(check=False)


def test_missing_repository_is_named(hub: FakeHub) -> None:
    with pytest.raises(BadInputError, match=f"{NAME}: got neither a folder of this name nor a repository at {hub.url}"):
        opened()
    with pytest.raises(BadInputError, match="repo_id: got 'app_modle', expected OWNER/NAME"):
        edge_embed.from_pretrained("app_modle")


def test_wrong_token_is_named(hub: FakeHub, repo: Repo) -> None:
    with pytest.raises(BadInputError, match=r"got no valid token \(answer 401\)") as raised:
        opened(token="hf_wrong")
    assert "hf_wrong" not in str(raised.value)


def test_failing_hub_is_named_and_the_cache_replaces_it(hub: FakeHub, repo: Repo) -> None:
    hub.failing["resolve"] = 418
    with pytest.raises(EdgeEmbedError, match="answers 418"):
        opened()
    hub.failing.clear()
    opened()
    hub.failing["resolve"] = 503
    opened()


@pytest.mark.parametrize("kind", ["bundle", "saved model"])
@pytest.mark.parametrize("problem", ["status", "token", "no answer", "no repository"])
def test_complete_cache_replaces_the_hub_at_once(
    hub: FakeHub, bundle: Path, saved: Path, monkeypatch: pytest.MonkeyPatch, kind: str, problem: str
) -> None:
    hub.add(NAME, files_of(bundle) if kind == "bundle" else {"model.pt": saved.read_bytes()})
    expected = type(opened())
    if problem == "status":
        hub.failing["resolve"] = 503
    elif problem == "no answer":
        place = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(hub.url, "http://127.0.0.1:9")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place)
    elif problem == "no repository":
        hub.repos.clear()
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: pytest.fail("asked again"))
    token = "hf_wrong" if problem == "token" else None
    assert type(opened(token=token)) is expected


def test_new_commit_with_a_bundle_replaces_a_model_in_the_cache(hub: FakeHub, bundle: Path, saved: Path) -> None:
    repo = hub.add(NAME, {"model.pt": saved.read_bytes()})
    assert not isinstance(opened(), OpenedBundle)
    repo.commit(files_of(bundle))  # by another tool, which leaves the model there
    assert isinstance(opened(), OpenedBundle)
    hub.add(NAME, files_of(bundle))
    assert isinstance(opened(), OpenedBundle)


def test_cache_that_cannot_be_written_is_named(hub: FakeHub, repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((OutputError, BadInputError), match="file"):
        opened(cache_dir=tmp_path / "file" / "cache")


def test_changed_file_in_the_cache_is_named(hub: FakeHub, repo: Repo) -> None:
    path = (opened().folder / "NOTICE").resolve()
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(BadInputError, match=r"NOTICE: got SHA-256 .*delete this file first"):
        opened()
    path.unlink()
    opened()


def test_local_folder_is_opened(hub: FakeHub, bundle: Path, saved: Path, tmp_path: Path) -> None:
    assert isinstance(edge_embed.from_pretrained(bundle), OpenedBundle)
    assert isinstance(edge_embed.from_pretrained(str(bundle)), OpenedBundle)
    shutil.copyfile(saved, tmp_path / "model.pt")
    assert not isinstance(edge_embed.from_pretrained(tmp_path), OpenedBundle)
    with pytest.raises(BadInputError, match=r"revision: got 'main' for the folder"):
        edge_embed.from_pretrained(bundle, revision="main")
    with pytest.raises(BadInputError, match="no such folder"):
        edge_embed.from_pretrained(tmp_path / "absent")
    assert hub.requests == []
