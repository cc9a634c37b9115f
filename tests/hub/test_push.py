"""Uploads: one commit with the files of the manifest and nothing else, or no commit."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError
from tests.hub.conftest import files_of
from tests.hub.fake_hub import FakeHub, Repo

NAME = "your-name/next-words"


def push(path: Path, name: str = NAME, **options: Any) -> Any:
    return edge_embed.push_to_hub(path, name, **options)


def test_bundle_is_one_commit_with_files_of_its_manifest(hub: FakeHub, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    (folder / "private notes.txt").write_text("mine")
    report = push(folder)
    repo = hub.repos[NAME]
    assert repo.commits[report.commit] == files_of(bundle)
    assert repo.messages == ["Upload with edge-embed"]
    assert (report.repo_id, report.revision, report.url) == (NAME, "main", f"{hub.url}/{NAME}")
    assert report.files == {name: len(content) for name, content in files_of(bundle).items()}
    assert not repo.private
    model = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    assert f"PUT /lfs/{model}" in hub.requests


def test_second_upload_of_the_same_files_makes_no_commit(hub: FakeHub, bundle: Path) -> None:
    first, second = push(bundle), push(bundle, message="again")
    assert first.commit == second.commit
    assert (first.changed, second.changed) == (True, False)
    assert "Uploaded" in str(first)
    assert "Nothing changed" in str(second)
    assert not push(bundle, revision="tiny").changed  # begins as the main branch
    assert len(hub.repos[NAME].messages) == 1


def test_bundle_with_a_changed_file_is_refused_before_any_request(hub: FakeHub, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    (folder / "NOTICE").write_bytes((folder / "NOTICE").read_bytes()[:-1] + b"!")
    with pytest.raises(BadInputError, match=r"NOTICE: got SHA-256"):
        push(folder)
    assert hub.requests == []


def test_branch_and_private_repository_are_created(hub: FakeHub, bundle: Path) -> None:
    report = push(bundle, private=True, revision="tiny", message="first")
    repo = hub.repos[NAME]
    assert (repo.private, repo.branches["tiny"]) == (True, report.commit)
    assert repo.commits[repo.branches["main"]] == {}


def test_private_upload_to_a_public_repository_is_refused(hub: FakeHub, bundle: Path) -> None:
    repo = hub.add(NAME, {})
    with pytest.raises(BadInputError, match="is public, expected a private repository"):
        push(bundle, private=True)
    assert len(repo.messages) == 1


def test_saved_model_is_uploaded_with_a_card(hub: FakeHub, saved: Path) -> None:
    files = hub_files(hub, push(saved))
    assert files.keys() == {"model.pt", "README.md"}
    assert files["model.pt"] == saved.read_bytes()
    card = files["README.md"].decode()
    assert card.startswith("---\nlibrary_name: edge-embed\nlicense: mit\ntags:\n- edge-embed\n- pytorch\n---\n")
    assert hashlib.sha256(saved.read_bytes()).hexdigest() in card
    assert "| words | dpq | 60 x 16 | 3,840 |" in card
    assert f'edge_embed.from_pretrained("{NAME}")' in card
    assert "| `model.pt` |" in card


def test_saved_model_is_uploaded_with_the_given_card(hub: FakeHub, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("---\nlicense: mit\n---\nmine\n")
    files = hub_files(hub, push(saved, card=tmp_path / "card.md"))
    assert files["README.md"] == b"---\nlicense: mit\n---\nmine\n"


def test_given_card_has_commands_for_the_repository(hub: FakeHub, card: Path) -> None:
    report = push(card.with_name("small.pt"), card=card, revision="tiny")
    words = hub_files(hub, report)["README.md"].decode()
    assert f'edge_embed.from_pretrained("{NAME}", revision="tiny")' in words
    assert "| SHA-256 of `model.pt` |" in words
    assert "small.pt" not in words
    card.write_text(words)  # as a user who edits the card of the repository
    assert not push(card.with_name("small.pt"), card=card, revision="tiny").changed


def test_card_that_push_made_is_accepted_again(hub: FakeHub, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_bytes(hub_files(hub, push(saved))["README.md"])
    assert not push(saved, card=tmp_path / "card.md").changed


@pytest.mark.parametrize("kind", ["file", "bundle", "edited"])
def test_card_of_another_model_is_refused(hub: FakeHub, card: Path, bundle: Path, saved: Path, kind: str) -> None:
    if kind == "edited":
        card.write_text(card.read_text().replace("library_name: edge-embed\n", ""))
    sha256 = hashlib.sha256(saved.read_bytes()).hexdigest()
    with pytest.raises(BadInputError, match=rf"README\.md: got the SHA-256 .*, expected {sha256} of .*: give the card"):
        push(saved, card=bundle / "README.md" if kind == "bundle" else card)
    assert hub.requests == []


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """Card beside ``small.pt``, by ``compress``."""
    torch.manual_seed(0)
    dense = edge_embed.save(nn.Embedding(200, 16), tmp_path / "dense.pt", torch.tensor([1, 2]))
    path = tmp_path / "README.md"
    edge_embed.compress(dense, "rows", bits=8, output=tmp_path / "small.pt", card=path, progress=lambda *_: None)
    return path


def test_model_is_not_put_beside_a_bundle(hub: FakeHub, bundle: Path, saved: Path) -> None:
    push(bundle)
    with pytest.raises(BadInputError, match=r"got bundle\.json there, expected one of it and model\.pt"):
        push(saved)
    with pytest.raises(BadInputError, match=r"got bundle\.json there"):
        push(saved, revision="new")  # which begins as the main branch
    assert hub.repos[NAME].branches.keys() == {"main"}
    push(saved, "your-name/other", revision="new")
    with pytest.raises(BadInputError, match=r"got model\.pt there, expected one of it and bundle\.json"):
        push(bundle, "your-name/other", revision="new")


def hub_files(hub: FakeHub, report: Any) -> dict[str, bytes]:
    return hub.repos[report.repo_id].commits[report.commit]


@pytest.mark.parametrize(
    "name",
    ["next-words", "a/b/c", "your-name/", "your name/x", "your-name/a--b", "../x", "a/x.git", "ä/b", "", None, 3],
)
def test_malformed_ids_are_refused(hub: FakeHub, bundle: Path, name: Any) -> None:
    with pytest.raises(BadInputError, match=r"repo_id: got .*, expected OWNER/NAME"):
        push(bundle, name)
    assert hub.requests == []


def test_files_of_no_bundle_or_saved_model_are_refused(hub: FakeHub, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="got a file of kind onnx, expected the folder of a bundle, or a saved"):
        push(bundle / "model.onnx")
    with pytest.raises(BadInputError, match=r"bundle\.json: no such file"):
        push(tmp_path)
    with pytest.raises(BadInputError, match="No such file"):
        push(tmp_path / "absent.pt")
    with pytest.raises(BadInputError, match=r"card: got .* for a bundle"):
        push(bundle, card="README.md")
    with pytest.raises(BadInputError, match="message: got ' '"):
        push(bundle, message=" ")
    assert hub.requests == []


@pytest.mark.parametrize("revision", ["", "..", " ", "a b", "-x", 3])
def test_malformed_revisions_are_refused(hub: FakeHub, bundle: Path, revision: Any) -> None:
    for call in (push, lambda _, **options: edge_embed.from_pretrained(NAME, **options)):
        with pytest.raises(BadInputError, match=r"revision: got .*, expected the name of a branch"):
            call(bundle, revision=revision)
    assert hub.requests == []


@pytest.mark.parametrize("revision", ["a//b", "a/.b", "a.lock", "a.lock/b", "refs/pr/1", "main/x", "HEAD", "0a" * 20])
def test_names_that_no_branch_can_have_are_refused(hub: FakeHub, bundle: Path, revision: str) -> None:
    with pytest.raises(BadInputError, match=r"revision: got .*, expected the name of a branch, such as main"):
        push(bundle, revision=revision)
    assert hub.requests == []


def test_tag_in_place_of_a_branch_is_refused(hub: FakeHub, bundle: Path) -> None:
    hub.add(NAME, {}).tags["v1"] = "0" * 40
    with pytest.raises(BadInputError, match=r"revision: got the tag 'v1' of .*, expected a branch"):
        push(bundle, revision="v1")
    assert hub.repos[NAME].branches.keys() == {"main"}


@pytest.mark.parametrize("content", [b"\xff\xfeab", b"---\n- a\n---\n", b"---\na: [\n---\n"])
def test_file_that_is_no_card_is_named(hub: FakeHub, saved: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "card.md").write_bytes(content)
    with pytest.raises(BadInputError, match=r"card\.md: got no model card \("):
        push(saved, card=tmp_path / "card.md")
    assert hub.requests == []


def test_missing_card_is_named(hub: FakeHub, saved: Path) -> None:
    with pytest.raises(BadInputError, match=r"absent\.md: no such file: expected a model card"):
        push(saved, card="absent.md")


def test_card_that_the_hub_refuses_makes_no_repository(hub: FakeHub, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("---\nlicense: [mit]\n---\n")
    with pytest.raises(BadInputError, match=r"card\.md: the Hub refuses the header .*license is wrong"):
        push(saved, card=tmp_path / "card.md")
    assert hub.repos == {}


@pytest.mark.parametrize("token", ["hf_\u00e4bc", "hf_abc\n", "hf abc", ""])
def test_token_that_cannot_be_sent_is_named(hub: FakeHub, bundle: Path, token: str) -> None:
    for call in (push, lambda _, **options: edge_embed.from_pretrained(NAME, **options)):
        with pytest.raises(BadInputError, match=rf"token: got {len(token)} characters, expected .*: copy it") as raised:
            call(bundle, token=token)
        assert not token or token not in str(raised.value)
    assert hub.requests == []


def test_token_of_the_environment_that_cannot_be_sent_is_named(
    hub: FakeHub, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_\u00e4bc")
    with pytest.raises(BadInputError, match="token: got 6 characters"):
        push(bundle)


@pytest.mark.parametrize(
    ("token", "name", "problem"),
    [
        ("hf_reader", NAME, "the token has no right for this"),
        ("hf_writer", "someone/else", "the token has no right for this"),
        ("hf_wrong", NAME, "got no valid token"),
    ],
)
def test_missing_rights_are_named(hub: FakeHub, bundle: Path, token: str, name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem) as raised:
        push(bundle, name, token=token)
    assert token not in str(raised.value)
    assert hub.repos == {}


@pytest.mark.parametrize("step", ["preupload", "/lfs/", "POST .*/commit/"])
def test_failing_hub_makes_no_commit(hub: FakeHub, bundle: Path, step: str) -> None:
    hub.failing[step] = 418
    with pytest.raises(EdgeEmbedError) as raised:
        push(bundle)
    assert raised.value.exit_code == 1
    assert str(raised.value).startswith(f"{NAME}: {hub.url}")
    assert hub.repos[NAME].messages == []


def test_offline_mode_is_named(hub: FakeHub, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInputError, match=r"outgoing traffic is off.*: unset HF_HUB_OFFLINE"):
        push(bundle)


def test_existing_repository_without_the_right_to_create_is_used(hub: FakeHub, bundle: Path) -> None:
    hub.repos[NAME] = Repo(private=False)
    hub.failing["/api/repos/create"] = 403
    assert push(bundle).commit in hub.repos[NAME].commits
