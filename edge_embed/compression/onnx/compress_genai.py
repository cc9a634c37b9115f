"""Compression of a folder of ONNX Runtime GenAI into another one, which the same runtime generates with.

The new folder has every file of the old one, and a model card if that has none. The ONNX file has packed tables, and
its weights lie in an external file, which is mapped and not copied. The operator library lies beside it, and
``custom_ops_library`` of the session options names it. Without the library the portable bodies of the operators run.
"""

import copy
import json
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from edge_embed.compression.card import card_of
from edge_embed.compression.job import Job
from edge_embed.compression.onnx.compress import compress_foreign
from edge_embed.compression.onnx.foreign_model import read_foreign
from edge_embed.compression.onnx.genai_agreement import check_agreement, check_rows
from edge_embed.compression.onnx.write import write_foreign
from edge_embed.compression.programs import CompressedFile
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.exported import OnWritten, keep_unopened
from edge_embed.files import check_folder, check_new_folder, new_folder
from edge_embed.importers.genai_folder import CUSTOM_OPS_LIBRARY, GENAI_CONFIG, GenaiFolder
from edge_embed.importers.genai_tokenizer import NO_TOKENIZER
from edge_embed.input_file import path_beside
from edge_embed.report.results.compressed import CompressReport
from edge_embed.report.views.markdown.card import CARD, is_our_card
from edge_embed.runtime.library import get_library_path

_LOG = logging.getLogger(__name__)
REPORT = "edge_embed_report.json"


def compress_genai(
    folder: GenaiFolder,
    job: Job,
    output: Path,
    force: bool = False,
    on_written: OnWritten = keep_unopened,
    has_library: bool = True,
    memory_bytes: int | None = None,
) -> CompressedFile:
    """Write a folder with packed tables in place of the dense ones of the decoder.

    Args:
        folder: the folder that was read.
        job: the requested compression, as for `edge_embed.compression.onnx.compress.compress_onnx`.
        output: the folder to write; the first of the job's processes writes it.
        force: replace an existing folder of this kind.
        on_written: called with the path of the complete ONNX file; an error leaves nothing.
        has_library: whether the folder gets the operator library of this machine.
        memory_bytes: as for `compress_onnx`.

    Raises:
        BadInputError: as `compress_onnx`, or the configuration and the ONNX file disagree, or the folder has another
            library of operators.
        SizeError: as `compress_onnx`.
        ParityError: as `compress_onnx`.
        OutputError: the folder cannot be written; nothing partial is left.
    """
    job.processes.first(lambda: _check_output(folder.path, output, force))
    if not folder.has_tokenizer:
        _LOG.warning("%s: %s", folder.path, NO_TOKENIZER)
    library = get_library_path() if has_library else None
    file = read_foreign(folder.model)
    with located(str(folder.path)):
        check_agreement(folder, file.model)
        config = _with_library(folder, library)
        kept = _kept_files(folder.path, file.files)
    reports = compress_foreign(file, job, memory_bytes, partial(check_rows, folder))

    def write() -> CompressReport:
        job.progress("writing", 0, 1)
        with new_folder(output, GENAI_CONFIG, force=force) as temporary:
            _copy(kept, folder.path, temporary)
            if library is not None:
                shutil.copyfile(library, temporary / library.name)
            (temporary / GENAI_CONFIG).write_text(config, encoding="utf-8")
            written = write_foreign(file, temporary / folder.model.name, False, on_written, is_external=True)
            dense_bytes, written_bytes = (sum(part.stat().st_size for part in each) for each in (file.files, written))
            report = CompressReport(reports, dense_bytes, written_bytes)
            (temporary / REPORT).write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
            if not (temporary / CARD).exists() or is_our_card(temporary / CARD):
                card = card_of(report, job, folder.path, temporary / folder.model.name, output.absolute().name)
                (temporary / CARD).write_text(card, encoding="utf-8")
            return report

    return CompressedFile(output, job.processes.same(write))


def _copy(files: Iterable[Path], folder: Path, output: Path) -> None:
    for path in files:
        place = output / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _check_output(folder: Path, output: Path, force: bool) -> None:
    read, written = folder.resolve(), output.resolve()
    if read.is_relative_to(written) or written.is_relative_to(read):
        raise BadInputError(f"{output}: overlaps {folder}, which is read by this command: choose another path")
    check_new_folder(output.absolute(), GENAI_CONFIG, force)
    check_folder(output.absolute().parent, output)


def _with_library(folder: GenaiFolder, library: Path | None) -> str:
    """Return the configuration with the operator library."""
    config = copy.deepcopy(folder.config)
    options = config["model"]["decoder"].setdefault("session_options", {})
    if library is not None:
        if folder.library not in (None, library.name):
            raise BadInputError(
                f"{GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY}: got {folder.library!r:.80}, expected none, because a "
                "session loads one library: leave ours out with --no-library (library=False)"
            )
        options[CUSTOM_OPS_LIBRARY] = library.name
    return json.dumps(config, indent=4) + "\n"


def _kept_files(folder: Path, replaced: Sequence[Path]) -> list[Path]:
    """Return the files that are copied, in subfolders too; links within the folder are followed."""
    left_out = {os.path.realpath(path) for path in replaced} | {os.path.realpath(folder / GENAI_CONFIG)}
    found = []
    for root, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        for path in (Path(root) / name for name in (*names, *links)):
            if os.path.realpath(path) in left_out or path.name == REPORT:
                continue
            path_beside(folder, str(path.relative_to(folder)), "file")
            if not path.is_file():
                raise BadInputError(f"{path.name}: got no regular file, expected one, or a subfolder that is no link")
            found.append(path)
    return found
