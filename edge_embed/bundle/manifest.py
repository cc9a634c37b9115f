"""Manifest of a bundle, ``bundle.json``: its files with sizes and hashes, and the versions that it requires.

Everything in a bundle is named here, so one changed byte of a file is found before a runtime reads it. Its own SHA-256
identifies a bundle, such as for an app that asks a server for a newer one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from edge_embed.bundle.json_file import read_json, typed
from edge_embed.errors import BadInputError, located
from edge_embed.input_file import check_regular
from edge_embed.program.provenance import sha256_of

FORMAT_VERSION = 1
MANIFEST = "bundle.json"
GOLDEN = "golden.json"
LIBRARY = "edge_embed_ops"  # names of what a bundle requires
ONNXRUNTIME, EXTENSIONS, TFLITE = "onnxruntime", "onnxruntime_extensions", "tflite"

Target = Literal["onnx", "tflite"]
_TARGETS: Mapping[str, Target] = {"onnx": "onnx", "tflite": "tflite"}
_NAME = re.compile(r"(?!\.)[\w.+ -]{1,200}")  # no folder, no hidden file
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_AGAIN = "copy or download the bundle again"


@dataclass(frozen=True)
class BundleFile:
    """Size in bytes and SHA-256 of a file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "BundleFile":
        """Return size and hash of an existing file."""
        return cls(path.stat().st_size, sha256_of(path))


@dataclass(frozen=True)
class BundleManifest:
    """Content of ``bundle.json``.

    Attributes:
        name: name of the model.
        made_by: program that wrote it, with its version.
        target: ``onnx`` or ``tflite``.
        model: name of the model file.
        requires: lowest version of each runtime and library. The operator library is only required for its speed.
        operators: types of the operators of the model, sorted, by domain.
        instruction_sets: variants of the kernels of the operator library, best first, by processor.
        metadata: strings that were saved with the model.
        files: every other file of the folder, by name.
    """

    name: str
    made_by: str
    target: Target
    model: str
    requires: Mapping[str, str]
    operators: Mapping[str, list[str]]
    instruction_sets: Mapping[str, list[str]]
    metadata: Mapping[str, str]
    files: Mapping[str, BundleFile]

    @classmethod
    def read(cls, folder: Path) -> "BundleManifest":
        """Read the manifest of a bundle; keys that this version does not know are skipped.

        Raises:
            BadInputError: it is missing, damaged, of a later format, or names a file outside of the folder.
        """
        path = folder / MANIFEST
        if not folder.is_dir():
            found = "is a file" if folder.exists() else "no such folder"
            raise BadInputError(f"{folder}: {found}, expected the folder of edge-embed export --bundle")
        with located(str(path)):
            content = read_json(path, "the manifest of a bundle, which edge-embed export --bundle writes")
            return _parsed(content)

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder."""
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        (folder / MANIFEST).write_text(json.dumps(content, indent=2, sort_keys=False) + "\n", encoding="utf-8")

    def check_files(self, folder: Path) -> None:
        """Compare every file with its size and hash.

        Raises:
            BadInputError: a file is missing or differs; the message names it.
        """
        for name, expected in self.files.items():
            path = folder / name
            with located(str(path)):
                size = check_regular(path, f"a file of the bundle: {_AGAIN}", or_empty=True)
                if size != expected.bytes:
                    raise BadInputError(f"got {size:,} bytes, expected {expected.bytes:,}: {_AGAIN}")
                digest = BundleFile.of(path).sha256
                if digest != expected.sha256:
                    raise BadInputError(f"got SHA-256 {digest}, expected {expected.sha256}: {_AGAIN}")

    def lacking(self, versions: Mapping[str, str]) -> dict[str, str]:
        """Return why an installed part is too old, by name; empty if none is.

        Args:
            versions: versions of what is installed; parts that are not installed are left out.
        """
        return {
            name: f"got {name} {versions[name]}, expected {needed} or newer: update it, or use an older bundle"
            for name, needed in self.requires.items()
            if name in versions and _numbers(versions[name]) < _numbers(needed)
        }


def _parsed(content: Any) -> BundleManifest:
    version = typed(content, "format_version", int)
    if version != FORMAT_VERSION:
        raise BadInputError(f"format_version: got {version}, expected {FORMAT_VERSION}: use the release that wrote it")
    target = typed(content, "target", str)
    if target not in _TARGETS:
        raise BadInputError(f"target: got {target!r:.80}, expected onnx or tflite")
    files = {name: _file(name, value) for name, value in typed(content, "files", dict).items()}
    model = typed(content, "model", str)
    for name in (model, GOLDEN):
        if name not in files:
            raise BadInputError(f"files: got no {name!r:.80}, expected it with its size and hash")
    requires = _texts(content, "requires")
    for name, needed in requires.items():
        if not _VERSION.fullmatch(needed):
            raise BadInputError(f"requires: {name[:80]}: got {needed!r:.80}, expected a version such as 1.18")
    return BundleManifest(
        typed(content, "name", str),
        typed(content, "made_by", str),
        _TARGETS[target],
        model,
        requires,
        _lists(content, "operators"),
        _lists(content, "instruction_sets"),
        _texts(content, "metadata"),
        files,
    )


def _file(name: str, content: Any) -> BundleFile:
    with located(f"files: {name[:80]!r}"):
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise BadInputError("expected the plain name of another file in the folder")
        size, digest = typed(content, "bytes", int), typed(content, "sha256", str)
        if size < 0 or not _SHA256.fullmatch(digest):
            raise BadInputError(f"got {size} bytes and SHA-256 {digest!r:.80}, expected a size and 64 hex digits")
        return BundleFile(size, digest)


def _texts(content: Any, key: str) -> dict[str, str]:
    found = typed(content, key, dict)
    with located(key):
        return {name: typed(found, name, str) for name in found}


def _lists(content: Any, key: str) -> dict[str, list[str]]:
    found = typed(content, key, dict)
    with located(key):
        lists = {name: typed(found, name, list) for name in found}
        if any(not isinstance(value, str) for values in lists.values() for value in values):
            raise BadInputError("expected lists of names")
        return lists


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version without trailing zeros, so that 1.18 and 1.18.0 are equal."""
    found = _VERSION.match(version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
