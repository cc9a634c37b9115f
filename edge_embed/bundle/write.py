"""Writes a bundle: model, vocabulary or tokenizer, golden pair, licence notices, model card, and last the manifest."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import onnx

from edge_embed.bundle.card import NOTICE, model_card, notices
from edge_embed.bundle.check import run_golden
from edge_embed.bundle.golden_case import golden_pair
from edge_embed.bundle.manifest import (
    EXTENSIONS,
    GOLDEN,
    LIBRARY,
    MANIFEST,
    ONNXRUNTIME,
    TFLITE,
    BundleFile,
    BundleManifest,
)
from edge_embed.errors import BadInputError, ParityError
from edge_embed.exporters.onnx.names import DOMAIN, LEAST_EXTENSIONS, LEAST_LIBRARY, LEAST_ONNXRUNTIME
from edge_embed.exporters.onnx.tokenizer.fuse import FusedTokenizer
from edge_embed.exporters.tflite.portable import LEAST_TFLITE
from edge_embed.files import check_folder, check_new_folder, new_folder
from edge_embed.inspection.tflite_file import read_tflite
from edge_embed.program.program import Program
from edge_embed.program.provenance import provenance_of
from edge_embed.report.results.bundled import Ran
from edge_embed.report.results.exported import ExportReport
from edge_embed.report.views.markdown.card import CARD
from edge_embed.runtime.library import package_version
from edge_embed.validation.exported_file import nodes_inside

VOCABULARY, TOKENIZER = "vocabulary.json", "tokenizer.json"
# Variants of the kernels, best first (runtime_ops/kernels/variant.h); 64-bit ARM has NEON in all of them.
INSTRUCTION_SETS = {"x86_64": ["avx512", "avx2", "portable"], "arm64": ["portable"]}
_STANDARD = "ai.onnx"  # the domain that files spell as an empty name


def check_bundle_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that could not be written after minutes of work.

    Args:
        folder: folder of the bundle.
        force: replace an existing bundle.

    Raises:
        BadInputError: it is not empty and ``force`` is false, or is no bundle, or its manifest is damaged. Or it holds
            a file that is no part of the bundle, such as the model that is exported: it would be lost.
        OutputError: it cannot be written.
    """
    check_new_folder(folder.absolute(), MANIFEST, force)
    if (folder / MANIFEST).is_file():
        known = {MANIFEST, *_earlier(folder).files}
        for path in folder.iterdir():
            if path.name not in known:
                raise BadInputError(
                    f"{folder}: holds {path.name}, which is no part of the bundle: move it, or it is lost"
                )
    check_folder(folder.absolute().parent, folder)


def _earlier(folder: Path) -> BundleManifest:
    try:
        return BundleManifest.read(folder)
    except BadInputError as error:
        remedy = "It is not replaced: delete the folder yourself, or choose another path"
        raise BadInputError(f"{error}. {remedy}") from error


def write_bundle(
    folder: Path,
    write_model: Callable[[Path], ExportReport],
    program: Program,
    tokenizer: FusedTokenizer | None,
    *,
    target: str,
    run: bool,
    force: bool,
) -> ExportReport:
    """Write a bundle, and run its golden pair before the folder gets its name.

    Args:
        folder: new folder, or a bundle to replace.
        write_model: function that exports the model to a path.
        program: the training form.
        tokenizer: tokenizer in the model file.
        target: ``onnx`` or ``tflite``.
        run: whether to run the golden pair.
        force: replace an existing bundle.

    Raises:
        BadInputError: as for `new_folder`, or the training form does not run.
        ParityError: the exported file computes other outputs than the training form.
        OutputError: the folder cannot be written.
    """
    with new_folder(folder, MANIFEST, force=force) as place:
        model = place / f"model.{target}"
        report = write_model(model)
        origin = provenance_of(program.source, program.metadata)
        golden = golden_pair(program, model, tokenizer)
        golden.write(place / GOLDEN)
        _write_words(place, program, tokenizer)
        (place / NOTICE).write_text(notices(origin.licence), encoding="utf-8")
        manifest = _manifest(place, folder.absolute().name, model, program, tokenizer)
        manifest.write(place)
        ran = run_golden(place, manifest) if run else ()
        _check_runs(folder, ran)
        card = model_card(manifest, report.tables, golden, ran, origin)
        (place / CARD).write_text(card, encoding="utf-8")
        replace(manifest, files=_files(place)).write(place)
        sizes = {folder / path.name: path.stat().st_size for path in sorted(place.iterdir())}
    return replace(report, files=sizes, golden=ran)


def _write_words(place: Path, program: Program, tokenizer: FusedTokenizer | None) -> None:
    """Write the vocabulary, and copy the tokenizer of the file or of the folder of the model."""
    if program.vocabulary is not None:
        text = json.dumps(list(program.vocabulary), ensure_ascii=False)
        (place / VOCABULARY).write_text(text + "\n", encoding="utf-8")
    beside = program.source / TOKENIZER if program.source is not None and program.source.is_dir() else None
    source = tokenizer.source.path if tokenizer is not None else beside
    if source is not None and source.is_file():
        shutil.copyfile(source, place / TOKENIZER)


def _manifest(
    place: Path, name: str, model: Path, program: Program, tokenizer: FusedTokenizer | None
) -> BundleManifest:
    operators = _tflite_operators(model) if model.suffix == ".tflite" else _onnx_operators(model)
    requires = {TFLITE: LEAST_TFLITE}
    if model.suffix == ".onnx":
        requires = {ONNXRUNTIME: LEAST_ONNXRUNTIME}
        requires |= {LIBRARY: LEAST_LIBRARY} if DOMAIN in operators else {}
        requires |= {EXTENSIONS: LEAST_EXTENSIONS} if tokenizer is not None else {}
    return BundleManifest(
        name,
        f"edge-embed {package_version()}",
        "tflite" if model.suffix == ".tflite" else "onnx",
        model.name,
        requires,
        operators,
        INSTRUCTION_SETS if DOMAIN in operators else {},
        program.metadata,
        _files(place),
    )


def _files(place: Path) -> dict[str, BundleFile]:
    return {path.name: BundleFile.of(path) for path in sorted(place.iterdir()) if path.name != MANIFEST}


def _tflite_operators(path: Path) -> dict[str, list[str]]:
    return {TFLITE: sorted(read_tflite(path).operators)}


def _onnx_operators(path: Path) -> dict[str, list[str]]:
    """Return the operators of a model and of the function bodies in its file, by domain."""
    model = onnx.load(str(path), load_external_data=False)
    found: dict[str, set[str]] = {}
    for node in (node for part in (model.graph, *model.functions) for node in nodes_inside(part)):
        found.setdefault(node.domain or _STANDARD, set()).add(node.op_type)
    return {domain: sorted(found[domain]) for domain in sorted(found)}


def _check_runs(folder: Path, ran: Iterable[Ran]) -> None:
    for run in ran:
        if run.status == "failed":
            raise ParityError(
                f"{folder}: {run.way}: {run.detail}: the exported file computes something else than the model. Nothing "
                "was written. Export it without --bundle, and compare them with edge-embed validate"
            )
