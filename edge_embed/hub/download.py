"""`from_pretrained`: a bundle or a compressed model from the Hub, in its cache on this machine."""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import DryRunFileInfo, HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import RemoteEntryNotFoundError

from edge_embed.bundle.manifest import MANIFEST, BundleFile, BundleManifest
from edge_embed.bundle.opened import OpenedBundle, open_bundle
from edge_embed.errors import BadInputError
from edge_embed.files import StrPath, checked_path
from edge_embed.hub.client import hub_client
from edge_embed.hub.failures import check_revision, checked_repo, hub_errors
from edge_embed.hub.saved_card import MODEL
from edge_embed.report.views.markdown.card import CARD

if TYPE_CHECKING:
    from edge_embed.lowering.layered_module import LoadedModel

_OTHER = "the repository was changed, give an earlier commit as revision"
_MOST_SMALL = 16 << 20  # bytes of a manifest, and of a card, which no hash limits


def from_pretrained(
    repo_id: StrPath,
    *,
    revision: str | None = None,
    cache_dir: StrPath | None = None,
    local_files_only: bool = False,
    token: str | None = None,
    check: bool = True,
) -> "OpenedBundle | LoadedModel":
    """Open a bundle, or load a compressed model, from a repository of the Hugging Face Hub or from a folder.

    The manifest of a bundle comes first. Then its files come, if their sizes are those of the manifest. Further files
    of the repository are left out. No code of the repository runs, and nothing is unpickled.

    Args:
        repo_id: ``OWNER/NAME``, or the path of a folder with ``bundle.json`` or ``model.pt``.
        revision: branch, tag or commit; by default the main branch.
        cache_dir: folder of downloaded files; by default the cache of the Hub (``HF_HUB_CACHE``).
        local_files_only: read the cache only.
        token: access token; by default ``HF_TOKEN``, or the token of ``hf auth login``.
        check: of a bundle: compare all files except the model card with their hashes, and the golden outputs with those
            of this machine, as `open_bundle`.

    Returns:
        The model of a bundle, as `open_bundle` returns it; or the module of ``model.pt``, as `load` returns it.

    Raises:
        BadInputError: there is no such repository or revision, the token may not read it, it has no model, or a file
            differs from the manifest. Or there is neither a connection nor a complete copy in the cache.
        ParityError: this machine computes other outputs than the golden ones.
        OutputError: the cache cannot be written.
    """
    if isinstance(repo_id, PathLike) or (isinstance(repo_id, str) and os.path.isdir(repo_id)):
        if revision is not None:
            raise BadInputError(f"revision: got {revision!r:.80} for the folder {repo_id}: leave it out")
        return _from_folder(Path(repo_id), check)
    check_revision(revision)
    cache = Path(constants.HF_HUB_CACHE if cache_dir is None else checked_path("cache_dir", cache_dir))
    name = checked_repo(repo_id)
    with hub_errors(name, revision):
        first = _Repository(hub_client(token), name, revision, cache, local_files_only).download()
    return _load(first) if first.name == MODEL else _open(name, first.parent, check)


def _from_folder(folder: Path, check: bool) -> "OpenedBundle | LoadedModel":
    if not (folder / MANIFEST).exists() and (folder / MODEL).is_file():
        return _load(folder / MODEL)
    return open_bundle(folder, check=check)


def _load(path: Path) -> "LoadedModel":
    from edge_embed.lowering.layered_module import load  # noqa: PLC0415 a bundle needs no torch

    return load(path)


def _open(repo_id: str, folder: Path, check: bool) -> OpenedBundle:
    """Open a downloaded bundle, whose card may have been edited on the Hub."""
    if check:
        manifest = BundleManifest.read(folder)
        compared = {name: file for name, file in manifest.files.items() if name != CARD}
        try:
            replace(manifest, files=compared).check_files(folder)
        except BadInputError as error:
            remedy = f"delete this file first; if it comes again, {_OTHER}"
            raise BadInputError(f"{repo_id}, commit {folder.name}: {error}: {remedy}") from error
    opened = open_bundle(folder, check=False)
    if check:
        opened.check_golden()
    return opened


@dataclass(frozen=True)
class _Repository:
    """Repository at a revision, and the cache for its files."""

    api: HfApi
    id: str
    revision: str | None
    cache: Path
    is_local: bool

    def download(self) -> Path:
        """Download a bundle or a model.

        Returns:
            The path of the manifest or of the model, in the folder of its commit.
        """
        first = self._first()
        if first.name == MANIFEST:
            files = BundleManifest.read(first.parent).files
            replace(self, revision=first.parent.name)._get(files)
        return first

    def _first(self) -> Path:
        """Return the path of the manifest, or of the model if there is no manifest.

        If the cache has the model, the Hub is asked for the manifest only after a new commit. A Hub that is down would
        be asked for half a minute.
        """
        if self._has_model(self.revision):
            with suppress(RemoteEntryNotFoundError):
                found = self._ask(MODEL)
                if self._has_model(found.commit_hash):
                    return self._fetch(MODEL)
        for name in (MANIFEST, MODEL):
            with suppress(RemoteEntryNotFoundError):
                return self._get_one(name)
        raise BadInputError(
            f"{self.id}: got a repository without {MANIFEST} and {MODEL}, expected one of edge-embed push: choose "
            "another repository or revision"
        )

    def _has_model(self, revision: str | None) -> bool:
        """Return whether the cache has the model of a revision, and no manifest of it."""
        model, manifest = (try_to_load_from_cache(self.id, name, self.cache, revision) for name in (MODEL, MANIFEST))
        return isinstance(model, str) and not isinstance(manifest, str)

    def _get_one(self, name: str) -> Path:
        found = self._ask(name)
        if name == MANIFEST:
            self._check_small(found)
        self._check_room([found])
        return self._fetch(name)

    def _get(self, files: Mapping[str, BundleFile]) -> None:
        """Download files, after a comparison of all sizes."""
        found = [self._ask(name) for name in files]
        for one in found:
            if one.filename == CARD:
                self._check_small(one)
            elif not one.is_cached and one.file_size != files[one.filename].bytes:
                expected = f"{files[one.filename].bytes:,} of {MANIFEST}"
                raise BadInputError(f"{self._place(one)}: got {one.file_size:,} bytes, expected {expected}: {_OTHER}")
        self._check_room(found)
        for name in files:
            self._fetch(name)

    def _ask(self, name: str) -> DryRunFileInfo:
        try:
            return self.api.hf_hub_download(
                self.id,
                name,
                revision=self.revision,
                cache_dir=self.cache,
                local_files_only=self.is_local,
                dry_run=True,
            )
        except RemoteEntryNotFoundError as error:
            if name in (MANIFEST, MODEL):
                raise
            raise BadInputError(f"{self.id}: got no {name}, which {MANIFEST} names, expected it: {_OTHER}") from error

    def _fetch(self, name: str) -> Path:
        return Path(
            self.api.hf_hub_download(
                self.id, name, revision=self.revision, cache_dir=self.cache, local_files_only=self.is_local
            )
        )

    def _check_small(self, found: DryRunFileInfo) -> None:
        if not found.is_cached and (found.file_size or 0) > _MOST_SMALL:
            most = f"at most {_MOST_SMALL:,}"
            raise BadInputError(f"{self._place(found)}: got {found.file_size:,} bytes, expected {most}: {_OTHER}")

    def _check_room(self, found: Iterable[DryRunFileInfo]) -> None:
        """Refuse files for which the disk has no room."""
        needed = sum(one.file_size or 0 for one in found if not one.is_cached)
        folder = next(path for path in (self.cache, *self.cache.absolute().parents) if path.exists())
        free = shutil.disk_usage(folder).free
        if needed > free:
            remedy = f"free some space in {folder}, or choose another cache_dir"
            raise BadInputError(f"{self.id}: got {needed:,} bytes to download, expected at most {free:,}: {remedy}")

    def _place(self, found: DryRunFileInfo) -> str:
        return f"{self.id}, commit {found.commit_hash}: {found.filename}"
