"""`push_to_hub`: a bundle or a compressed model in one commit to a repository of the Hub."""

from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, ModelCard

from edge_embed.bundle.manifest import MANIFEST, BundleManifest
from edge_embed.errors import BadInputError, located, one_line
from edge_embed.files import StrPath, checked_path
from edge_embed.hub.download import MODEL
from edge_embed.hub.failures import checked_repo, checked_revision, hub_errors
from edge_embed.hub.saved_card import saved_card
from edge_embed.input_file import read_whole
from edge_embed.inspection.inspect import inspect_file
from edge_embed.report.results.pushed import PushReport
from edge_embed.report.views.markdown.card import CARD
from edge_embed.runtime.library import package_version

_MAIN = "main"
_MOST_CARD = 1 << 20
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
        card: for a saved model: its model card, such as ``compress`` writes; by default one is made from the file.
        private: create a private repository. A public repository of that name is refused.
        revision: branch, which is created if it does not exist; by default the main branch.
        token: access token; by default ``HF_TOKEN``, or the token of ``hf auth login``.
        message: message of the commit.

    Returns:
        The report: the commit, the address and the files.

    Raises:
        BadInputError: the files are no bundle or saved model, or differ from the manifest; then nothing is uploaded.
            Or the token has no right to write.
        EdgeEmbedError: the Hub failed; then there is no commit.
    """
    path, repo_id = checked_path("path", path), checked_repo(repo_id)
    if not (isinstance(message, str) and message.strip()):
        raise BadInputError(f"message: got {message!r:.80}, expected a text: leave it out")
    checked_revision(revision)
    files = _of_bundle(path, card) if path.is_dir() else _of_model(path, card, repo_id)
    with hub_errors(repo_id, revision):
        api = HfApi(token=token, library_name="edge-embed", library_version=package_version())
        _prepare(api, repo_id, private, revision, files)
        done = api.create_commit(
            repo_id,
            [CommitOperationAdd(name, content) for name, content in files.items()],
            commit_message=message,
            revision=revision,
        )
    sizes = {name: _size(content) for name, content in files.items()}
    return PushReport(repo_id, revision or _MAIN, done.oid, f"{api.endpoint}/{repo_id}", sizes)


def _of_bundle(folder: Path, card: StrPath | None) -> Contents:
    """Return the files of a bundle that has the hashes of its manifest."""
    if card is not None:
        raise BadInputError(f"card: got {card!r:.80} for a bundle, which has {CARD}: leave it out")
    manifest = BundleManifest.read(folder)
    manifest.check_files(folder)
    return {name: folder / name for name in (*manifest.files, MANIFEST)}


def _of_model(path: Path, card: StrPath | None, repo_id: str) -> Contents:
    """Return a saved model, and a card that is given or made."""
    report = inspect_file(path)
    if report.kind != "program":
        raise BadInputError(
            f"{path}: got a file of kind {report.kind}, expected the folder of a bundle, or a saved model: export "
            "--bundle or compress writes them"
        )
    if card is None:
        return {MODEL: path, CARD: saved_card(report, path, repo_id, MODEL).encode()}
    place = checked_path("card", card)
    with located(str(place)):
        return {
            MODEL: path,
            CARD: _checked_card(read_whole(place, _MOST_CARD, "a model card, as compress --card writes it")),
        }


def _checked_card(content: bytes) -> bytes:
    """Return a card whose header the client of the Hub can read."""
    try:
        ModelCard(content.decode("utf-8-sig"))
    except Exception as error:  # those of its parser have no common base class
        raise BadInputError(f"got no model card ({one_line(error)}), expected text with a header in YAML") from error
    return content


def _prepare(api: HfApi, repo_id: str, private: bool, revision: str | None, files: Contents) -> None:
    """Create the repository and the branch if they do not exist.

    Raises:
        BadInputError: the repository is public and not private, or holds a bundle beside which a model would not be
            found, or the reverse.
    """
    api.create_repo(repo_id, private=private or None, exist_ok=True)
    if private and not api.model_info(repo_id).private:
        raise BadInputError(f"{repo_id}: is public, expected a private repository: choose another name")
    exists = revision is None or api.revision_exists(repo_id, revision)  # a new branch begins as the main one
    kind, other = (MODEL, MANIFEST) if MODEL in files else (MANIFEST, MODEL)
    if api.file_exists(repo_id, other, revision=revision if exists else None):
        raise BadInputError(f"{repo_id}: got {other} there, expected one of it and {kind}: choose another repository")
    if revision is not None and not exists:
        api.create_branch(repo_id, branch=revision, exist_ok=True)


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
