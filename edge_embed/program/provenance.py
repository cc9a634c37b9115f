"""Origin of a model: its file with the hash, its licence, and the model of the Hub that it is based on."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from edge_embed.program.task import task_of
from edge_embed.report.results.provenance import Provenance

_LICENCE_KEYS = ("licence", "license")  # of metadata; both spellings are used
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_CACHED = re.compile(r"models--([^/]+)--([^/]+)/snapshots(?:/|$)")  # folder of a model in the cache of the Hub


def provenance_of(source: Path | None, metadata: Mapping[str, str]) -> Provenance:
    """Return the origin of a model.

    Args:
        source: file or folder that it was read from; None for a module.
        metadata: strings that were saved with it. ``licence``, ``base_model`` and ``task`` are used.
    """
    stated = metadata.get("base_model", "")
    base = stated if is_hub_id(stated) else _cached_id(source)
    licence, task = licence_of(metadata), metadata.get("task", "")
    if source is None:
        return Provenance(base_model=base, licence=licence, task=task)
    return Provenance(source.absolute().name, sha256_of(source), base, licence, task or task_of(source))


def is_hub_id(name: str) -> bool:
    """Return whether a text is an id of a repository on the Hub with its owner, ``OWNER/NAME``."""
    return bool(_HUB_ID.fullmatch(name)) and not re.search(r"--|\.\.|\.git$", name)


def licence_of(metadata: Mapping[str, str]) -> str:
    """Return the licence that was saved with a model, or an empty text."""
    return next((metadata[key] for key in _LICENCE_KEYS if metadata.get(key)), "")


def sha256_of(path: Path) -> str:
    """Return the hash of a file, or an empty text for a folder."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cached_id(source: Path | None) -> str:
    """Return the id of a model that lies in the cache of the Hub, or an empty text."""
    found = None if source is None else _CACHED.search(source.absolute().as_posix())
    name = f"{found[1]}/{found[2]}" if found else ""
    return name if is_hub_id(name) else ""
