"""`push_to_hub`: a bundle or a compressed model in one commit to a repository of the Hub."""

from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi

from edge_embed.bundle.manifest import MANIFEST, BundleManifest
from edge_embed.errors import BadInputError, located
from edge_embed.files import StrPath, checked_path
from edge_embed.hub.client import hub_client
from edge_embed.hub.failures import check_branch, checked_repo, hub_errors
from edge_embed.hub.given_card import given_card
from edge_embed.hub.header import check_card
from edge_embed.hub.saved_card import MODEL, saved_card
from edge_embed.inspection.inspect import inspect_file
from edge_embed.report.results.pushed import PushReport
from edge_embed.report.views.markdown.card import CARD

_MAIN = "main"
Contents = Mapping[str, Path | bytes]  # by name in the repository


def push_to_hub(
    path: StrPath,
    repo_id: str,
    *,
    card: StrPath | None = None,
    private: bool = False,
    revision: str | None = None,
    token: str | None = None,
    message: str = "Upload with edge-embed",
) -> PushReport:
    """Upload a bundle, or a compressed model with its model card, to the Hugging Face Hub in one commit.

    Args:
        path: folder of a bundle, whose files are compared with their hashes first; or a saved model, which becomes
            ``model.pt``. Other files in the folder are left out.
        repo_id: ``OWNER/NAME``. The repository is created if it does not exist.
        card: for a saved model: its model card, such as ``compress`` writes; by default one is made from the file. If
            it has the hash of a file, that must be this file. Calls of ``load`` become those of `from_pretrained`.
        private: create a private repository. A public repository of that name is refused.
        revision: branch, which is created if it does not exist; by default the main branch.
        token: access token; by default ``HF_TOKEN``, or the token of ``hf auth login``.
        message: message of the commit.

    Returns:
        The report: the commit, the address and the files.

    Raises:
        BadInputError: the files are no bundle or saved model, or differ from the manifest, or the card is refused; then
            no repository is created. Or the token has no right to write.
        EdgeEmbedError: the Hub failed; then there is no commit.
    """
    path, repo_id = checked_path("path", path), checked_repo(repo_id)
    if not (isinstance(message, str) and message.strip()):
        raise BadInputError(f"message: got {message!r:.80}, expected a text: leave it out")
    check_branch(revision)
    files = _of_bundle(path, card) if path.is_dir() else _of_model(path, card, repo_id, revision)
    with hub_errors(repo_id, revision):
        api = hub_client(token)
        if CARD in files:
            _check_by_hub(files[CARD], f"{card or CARD}")
        before = _prepare(api, repo_id, private, revision, files)
        done = api.create_commit(
            repo_id,
            [CommitOperationAdd(name, content) for name, content in files.items()],
            commit_message=message,
            revision=revision,
        )
    sizes = {name: _size(content) for name, content in files.items()}
    address = f"{api.endpoint}/{repo_id}"
    return PushReport(repo_id, revision or _MAIN, done.oid, address, sizes, done.oid != before)


def _of_bundle(folder: Path, card: StrPath | None) -> Contents:
    """Return the files of a bundle that has the hashes of its manifest."""
    if card is not None:
        raise BadInputError(f"card: got {card!r:.80} for a bundle, which has {CARD}: leave it out")
    manifest = BundleManifest.read(folder)
    manifest.check_files(folder)
    return {name: folder / name for name in (*manifest.files, MANIFEST)}


def _of_model(path: Path, card: StrPath | None, repo_id: str, revision: str | None) -> Contents:
    """Return a saved model, and a card that is given or made."""
    report = inspect_file(path)
    if report.kind != "program":
        raise BadInputError(
            f"{path}: got a file of kind {report.kind}, expected the folder of a bundle, or a saved model: export "
            "--bundle or compress writes them"
        )
    if card is None:
        return {MODEL: path, CARD: saved_card(report, path, repo_id, revision).encode()}
    place = checked_path("card", card)
    with located(str(place)):
        return {MODEL: path, CARD: given_card(place, path, repo_id, revision)}


def _check_by_hub(content: Path | bytes, place: str) -> None:
    """Refuse a card that the Hub refuses, before a repository is created.

    Raises:
        BadInputError: its header has a wrong value.
    """
    with located(place):
        check_card(content if isinstance(content, bytes) else content.read_bytes(), by_hub=True)


def _prepare(api: HfApi, repo_id: str, private: bool, revision: str | None, files: Contents) -> str | None:
    """Create the repository and the branch if they do not exist.

    Returns:
        The last commit of the branch; a new one begins as the main one.

    Raises:
        BadInputError: the repository is public and not private, has a tag in place of the branch, or holds a bundle
            beside which a model would not be found, or the reverse.
    """
    api.create_repo(repo_id, private=private or None, exist_ok=True)
    if private and not api.model_info(repo_id).private:
        raise BadInputError(f"{repo_id}: is public, expected a private repository: choose another name")
    refs = api.list_repo_refs(repo_id)
    if any(tag.name == revision for tag in refs.tags):
        raise BadInputError(f"revision: got the tag {revision!r} of {repo_id}, expected a branch: choose another name")
    commits = {branch.name: branch.target_commit for branch in refs.branches}
    begin = revision if revision in commits else _MAIN
    kind, other = (MODEL, MANIFEST) if MODEL in files else (MANIFEST, MODEL)
    if api.file_exists(repo_id, other, revision=begin):
        raise BadInputError(f"{repo_id}: got {other} there, expected one of it and {kind}: choose another repository")
    if revision is not None and revision not in commits:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    return commits.get(begin)


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
