"""`validate_bundle`: compares the files of a bundle with its manifest, and runs its golden pair in every way."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from edge_embed.bundle.manifest import GOLDEN, LIBRARY, MANIFEST, BundleFile, BundleManifest
from edge_embed.bundle.opened import OpenedBundle, installed_versions
from edge_embed.errors import BadInputError, EdgeEmbedError, ParityError
from edge_embed.files import StrPath, checked_path
from edge_embed.report.results.bundled import BundleReport, Ran
from edge_embed.steps import step

_ONNX, _TFLITE = "ONNX Runtime", "LiteRT"
_DISTRIBUTIONS = {_ONNX: "onnxruntime", _TFLITE: "ai-edge-litert"}


def validate_bundle(folder: StrPath) -> BundleReport:
    """Compare the files of a bundle with its manifest, and run its golden pair in each way that this machine has.

    Args:
        folder: folder that ``export`` wrote with ``bundle=True``.

    Returns:
        The report. Outputs that differ are failed runs in it and raise no error.

    Raises:
        BadInputError: the folder is no bundle, a file of it was changed, or the golden pair does not fit the model; the
            message names the file.
        TimeLimitError: a step took too long.
    """
    folder = checked_path("folder", folder)
    manifest = BundleManifest.read(folder)
    manifest.check_files(folder)
    return BundleReport(
        folder,
        manifest.name,
        manifest.made_by,
        BundleFile.of(folder / MANIFEST).sha256,
        manifest.requires,
        {name: file.bytes for name, file in manifest.files.items()},
        run_golden(folder, manifest),
    )


def run_golden(folder: Path, manifest: BundleManifest) -> tuple[Ran, ...]:
    """Run the golden pair of a bundle: with the operator library and without, or in LiteRT."""
    return tuple(_runs(folder, manifest))


def _runs(folder: Path, manifest: BundleManifest) -> Iterator[Ran]:
    if manifest.target == "tflite":
        yield _run(folder, manifest, _TFLITE, "built-in operators", portable=True)
        return
    if LIBRARY in manifest.requires:
        yield _run(folder, manifest, _ONNX, "operator library", portable=False)
    yield _run(folder, manifest, _ONNX, "portable body", portable=True)


def _run(folder: Path, manifest: BundleManifest, runtime: str, how: str, *, portable: bool) -> Ran:
    try:
        way = f"{runtime} {metadata.version(_DISTRIBUTIONS[runtime])}, {how}"
    except metadata.PackageNotFoundError:
        return Ran(f"{runtime}, {how}", "not run", f"the package {_DISTRIBUTIONS[runtime]} is not installed")
    lacking = manifest.lacking(installed_versions())
    if portable:
        lacking.pop(LIBRARY, None)
    if lacking:
        return Ran(way, "not run", "; ".join(lacking.values()))
    try:
        with step(f"{GOLDEN} in {way}"):
            errors = OpenedBundle(folder, manifest, portable).check_golden()
    except ParityError as error:
        return Ran(way, "failed", str(error).removeprefix(f"{folder}: "))
    except BadInputError:  # of the bundle, not of this machine
        raise
    except EdgeEmbedError as error:  # a library that is not installed
        return Ran(way, "not run", str(error))
    return Ran(way, "passed", error=max(errors, default=0.0))
