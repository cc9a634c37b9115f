"""`open_bundle`: a bundle on this machine, after its hashes, versions and golden pair."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bundle.golden import GoldenPair
from edge_embed.bundle.manifest import EXTENSIONS, GOLDEN, LIBRARY, ONNXRUNTIME, BundleManifest
from edge_embed.errors import BadInputError, ParityError, located, one_line
from edge_embed.files import StrPath, checked_path
from edge_embed.runtime.library import package_version
from edge_embed.runtime.session import create_session
from edge_embed.targets.tflite.litert import LiteRtModel

_LOG = logging.getLogger(__name__)

_PACKAGES = {ONNXRUNTIME: "onnxruntime", EXTENSIONS: "onnxruntime-extensions"}
Feeds = Mapping[str, NDArray[Any]]


class OpenedBundle:
    """A model of a bundle that can be run.

    Args:
        folder: folder of the bundle.
        manifest: its manifest.
        portable: leave the operator library out.

    Attributes:
        folder: folder of the bundle.
        manifest: its manifest.
        portable: whether the operator library is left out.
    """

    def __init__(self, folder: Path, manifest: BundleManifest, portable: bool = False) -> None:
        self.folder, self.manifest, self.portable = folder, manifest, portable
        path = folder / manifest.model
        self._run = _onnx(path, portable) if manifest.target == "onnx" else _tflite(path)

    def run(self, inputs: Feeds) -> dict[str, NDArray[Any]]:
        """Return the outputs by name.

        Args:
            inputs: an array for each input of the model.

        Raises:
            BadInputError: an input is missing or unknown, or the runtime refuses it.
        """
        if not isinstance(inputs, Mapping):
            raise BadInputError(f"inputs: got {inputs!r:.80}, expected a mapping of names to arrays")
        return self._run({name: np.asarray(value) for name, value in inputs.items()})

    def check_golden(self) -> list[float]:
        """Run the golden pair.

        Returns:
            The largest absolute error of each output.

        Raises:
            BadInputError: the golden pair is damaged, or the model has other inputs or outputs.
            ParityError: an output differs; the message names it.
        """
        pair = GoldenPair.read(self.folder / GOLDEN)
        with located(str(self.folder / GOLDEN)):
            found = self.run(pair.feeds())
        names = [tensor.name for tensor in pair.outputs]
        if set(names) - found.keys():
            raise BadInputError(f"{self.folder / GOLDEN}: got outputs {', '.join(names)}, expected {', '.join(found)}")
        got = [found[name] for name in names]
        differences = pair.differences(got)
        if differences:
            raise ParityError(
                f"{self.folder}: {differences[0]}: this runtime computes something else than the training form; "
                "update the runtime and the operator library, or use an older bundle"
            )
        return [
            tensor.largest_error(value) if tensor.dtype.startswith("float") else 0.0
            for tensor, value in zip(pair.outputs, got, strict=True)
        ]


@dataclass(frozen=True)
class _Session:
    session: Any

    def __call__(self, inputs: Feeds) -> dict[str, NDArray[Any]]:
        names = [output.name for output in self.session.get_outputs()]
        try:
            return dict(zip(names, self.session.run(names, dict(inputs)), strict=True))
        except Exception as error:  # the runtime's exceptions have no common base class
            raise BadInputError(f"inputs: ONNX Runtime refuses them: {one_line(error)}") from error


@dataclass(frozen=True)
class _Interpreter:
    model: LiteRtModel

    def __call__(self, inputs: Feeds) -> dict[str, NDArray[Any]]:
        try:
            return dict(zip(self.model.output_names, self.model.call(inputs), strict=True))
        except (RuntimeError, ValueError) as error:
            message = one_line(error)
            raise BadInputError(
                f"inputs: LiteRT refuses them: {message}; a file with fixed sizes accepts those of its signatures, "
                "which edge-embed inspect lists and export --tflite-size sets"
            ) from error


def _onnx(path: Path, portable: bool) -> _Session:
    return _Session(create_session(path, portable))


def _tflite(path: Path) -> _Interpreter:
    return _Interpreter(LiteRtModel(path))


def open_bundle(folder: StrPath, portable: bool = False, check: bool = True) -> OpenedBundle:
    """Open the model of a bundle in ONNX Runtime or LiteRT, on the CPU.

    Args:
        folder: folder of ``edge-embed export --bundle``.
        portable: ONNX: leave the operator library out, so that the function bodies of standard operators run.
        check: compare all files with their hashes, and the golden outputs with those of this machine. An app may skip
            both after its first start.

    Returns:
        The model; its ``run`` takes arrays by name and returns arrays by name.

    Raises:
        BadInputError: the folder is no bundle, a file of it was changed, or the runtime is older than it requires.
        ParityError: this machine computes other outputs than the golden ones.
        EdgeEmbedError: the runtime, or a library that the model requires, is not installed.
    """
    folder = checked_path("folder", folder)
    manifest = BundleManifest.read(folder)
    if check:
        manifest.check_files(folder)
    lacking = manifest.lacking(installed_versions())
    old = lacking.pop(LIBRARY, "")
    if lacking:
        raise BadInputError(f"{folder}: {'; '.join(lacking.values())}")
    if old and not portable:
        _LOG.warning("%s: %s. The portable bodies run instead", folder, old)
    opened = OpenedBundle(folder, manifest, portable or bool(old))
    if check:
        opened.check_golden()
    return opened


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed runtimes and of the operator library, by their names in manifests."""
    versions = {}
    for name, package in _PACKAGES.items():
        try:
            versions[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**versions, LIBRARY: package_version()}
