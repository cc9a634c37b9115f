"""Command ``inspect``: recognises a file by its content and lists what it holds, without running code from it."""

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.files import StrPath, checked_path
from edge_embed.importers.genai_folder import GenaiFolder, is_genai, read_genai
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.inspection.report import FileReport, TableInfo
from edge_embed.methods import words_of
from edge_embed.program.file_kind import is_npz, is_onnx, kind_in
from edge_embed.report.interactive import interactive

Inspector = Callable[..., FileReport]

_ZIP = b"PK"
_GZIP = b"\x1f\x8b"
_FIRST_FIELD = 0x08  # first byte of a protobuf message whose field 1 is a number
_PICKLE = b"\x80"
_ORT = b"ORTM"  # identifier of its flatbuffers, after the first offset
_TFLITE = b"TFL3"
_PACKED = b'"edge_embed"'
_MOST_HEADER = 100_000_000  # bytes of a safetensors header
_EXPECTED = (
    "expected one of these: a saved program (.pt, .pt2), a torch.save file, packed .safetensors, an .onnx, .ort or "
    ".tflite model, word vectors (word2vec, GloVe, fastText, model2vec, .npy), or a transformers folder"
)


@interactive
def inspect(path: StrPath, verify: bool = False) -> FileReport:
    """Return the contents of a file, table by table.

    The file is a saved model, packed tables, ONNX, ORT, TFLite or word vectors.

    Args:
        path: the file, or the folder of a transformers model or of ONNX Runtime GenAI.
        verify: check the hash of every table, and of nothing else.

    Raises:
        BadInputError: if the file is missing, damaged or of an unknown kind.
    """
    return inspect_file(checked_path("path", path), verify)


def inspect_file(path: StrPath, verify: bool = False, reading: Reading = AS_IT_SHOWS) -> FileReport:
    """Report the content of a file: tables, their sizes and shares, and what runs them.

    Args:
        path: A saved program, a ``torch.save`` file, or a packed ``.safetensors`` file. An ``.onnx`` model with its
            external data beside it, an ``.ort`` model (converted by ONNX Runtime), or a ``.tflite`` model. A file of
            word vectors, or the folder of a model2vec or transformers model.
        verify: Also read the tables and compare their SHA-256 with the one from the time of writing. A saved program
            has a checksum on every member instead, which is always compared.
        reading: Options for reading word vectors whose files do not state them.

    Returns:
        The report; its ``exit_code`` is 3 if something differs.

    Raises:
        BadInputError: The file is missing, damaged, or none of these; external data is missing, too short or not beside
            the model.
    """
    folder = read_genai(Path(path)) if is_genai(Path(path)) else None
    path = Path(path) if folder is None else folder.model
    inspector = _inspector(path)
    if inspector in (_vectors, _folder):
        return inspector(path, verify, reading)
    if reading.given:
        raise BadInputError(f"{path}: got {', '.join(reading.given)}, which only word vectors support: leave it out")
    report = inspector(path, verify)
    report = replace(report, notes=[*report.notes, *filter(None, map(_why_large, report.tables))])
    return report if folder is None else _with_folder(report, folder)


def _with_folder(report: FileReport, folder: GenaiFolder) -> FileReport:
    """Return the report with the parts of a GenAI folder beside its ONNX file."""
    from edge_embed.inspection.genai_parts import describe_parts  # noqa: PLC0415

    facts, faults = describe_parts(folder)
    return replace(report, notes=[*report.notes, *facts], warnings=[*report.warnings, *faults])


def _why_large(table: TableInfo) -> str:
    """Return a note on a table that is hardly smaller than the dense one, with the remedy; else nothing."""
    words = words_of(table.method)
    reason = words.why_large(table.compression_ratio, table.num_embeddings, table.attributes)
    return f"{table.name}: {reason}: {words.smaller}" if reason else ""


def _inspector(path: Path) -> Inspector:
    if path.is_dir():
        return _folder
    start, size = _start_of(path)
    if not size:
        raise BadInputError(f"{path}: is empty, {_EXPECTED}")
    if start.startswith(_ZIP):
        return _vectors if is_npz(path) else _zip
    if _is_safetensors(start, size):
        return _packed if _has_packed_tables(path, start) else _vectors
    if start.startswith(_PICKLE):
        return _pickle
    if is_ort_format(start):
        return _ort
    if is_tflite(start):
        return _tflite
    if is_onnx(start):
        return _onnx
    by_suffix = {".onnx": _onnx, ".tflite": _tflite, ".safetensors": _packed, ".pt": _program, ".pt2": _program}
    suffix = path.suffix.lower()  # the first bytes are damaged: the reader for the suffix reports where
    kind = kind_in(path) if suffix in by_suffix or start[0] == _FIRST_FIELD else None
    if kind is not None and start[:2] != _GZIP:
        raise BadInputError(f"{path}: {kind}")
    if suffix in by_suffix:
        return by_suffix[suffix]
    if start[0] == _FIRST_FIELD:  # a protobuf message whose field 1 is a number, as in every ONNX model
        return _onnx
    return _vectors


def _start_of(path: Path) -> tuple[bytes, int]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
            raise BadInputError(f"{path}: is not a regular file, {_EXPECTED}")
        if not os.stat(path).st_size:  # also true for files of /proc, whose reading may never end
            return b"", 0
        with path.open("rb") as file:
            return file.read(16), os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        if isinstance(error, BadInputError):
            raise
        reason = kind_in(path) or f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise BadInputError(f"{path}: {reason}") from error


def is_ort_format(start: bytes) -> bool:
    """Return whether the first bytes of a file are those of a model in ORT format."""
    return start[4:8] == _ORT


def is_onnx_file(path: Path) -> bool:
    """Return whether a file is an ONNX model by suffix or content; False if it cannot be read."""
    if path.suffix.lower() == ".onnx":
        return True
    try:
        return _inspector(path) is _onnx
    except BadInputError:
        return False


def is_tflite_file(path: Path) -> bool:
    """Return whether a file is a TFLite model by suffix or content; False if it cannot be read."""
    if path.suffix.lower() == ".tflite":
        return True
    try:
        return is_tflite(_start_of(path)[0])
    except BadInputError:
        return False


def is_tflite(start: bytes) -> bool:
    """Return whether the first bytes of a file are those of a TFLite model."""
    return start[4:8] == _TFLITE


def _is_safetensors(start: bytes, size: int) -> bool:
    """Return whether a file begins with eight bytes of header length and a JSON object."""
    return size > 9 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= size - 8


def _has_packed_tables(path: Path, start: bytes) -> bool:
    """Return whether a safetensors header names our tables; an overlong header is left to its reader."""
    length = int.from_bytes(start[:8], "little")
    with path.open("rb") as file:
        return length > _MOST_HEADER or _PACKED in file.read(8 + length)


# The reader of each kind is imported when needed: torch takes seconds to import, and only saved programs need it.


def _zip(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.torch_save import member_names  # noqa: PLC0415

    try:
        names = member_names(path)
    except BadInputError as error:
        kind = kind_in(path)
        raise (error if kind is None else BadInputError(f"{path}: {kind}")) from None
    if "models/model.json" in names:
        return _program(path, verify)
    if "data.pkl" in names:
        return _torch_save(path, verify)
    what = kind_in(path) or f"got a zip archive without a model ({len(names)} members), {_EXPECTED}"
    raise BadInputError(f"{path}: {what}")


def _program(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.program_file import inspect_program  # noqa: PLC0415

    return inspect_program(path, verify)


def _torch_save(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.torch_save import inspect_torch_save  # noqa: PLC0415

    return inspect_torch_save(path, verify)


def _pickle(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.torch_save import inspect_old_torch_save  # noqa: PLC0415

    return inspect_old_torch_save(path, verify)


def _packed(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.packed_file import inspect_packed  # noqa: PLC0415

    return inspect_packed(path, verify)


def _ort(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.ort_file import inspect_ort  # noqa: PLC0415

    return inspect_ort(path, verify)


def _tflite(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.tflite_file import inspect_tflite  # noqa: PLC0415

    return inspect_tflite(path, verify)


def _folder(path: Path, verify: bool, reading: Reading) -> FileReport:
    from edge_embed.importers.recognize import is_transformers_folder  # noqa: PLC0415
    from edge_embed.inspection.program_file import inspect_transformers  # noqa: PLC0415

    return inspect_transformers(path, verify) if is_transformers_folder(path) else _vectors(path, verify, reading)


def _vectors(path: Path, verify: bool, reading: Reading) -> FileReport:
    from edge_embed.inspection.vectors_file import inspect_vectors  # noqa: PLC0415

    report = inspect_vectors(path, verify, reading)
    if report is not None:
        return report
    kind = kind_in(path)
    if kind is not None:
        raise BadInputError(f"{path}: {kind}")
    if path.is_dir():
        raise BadInputError(f"{path}: is not a regular file, {_EXPECTED}")
    start, _ = _start_of(path)
    raise BadInputError(f"{path}: got a file that begins with {start[:8]!r}, {_EXPECTED}")


def _onnx(path: Path, verify: bool) -> FileReport:
    from edge_embed.inspection.onnx_file import inspect_onnx  # noqa: PLC0415

    return inspect_onnx(path, verify)
