"""Recognition of files of other kinds by their content, with a remedy for each kind."""

import errno
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.program.folder_kind import folder_kind
from edge_embed.program.kind_of_file import EMBED, EXPORT, EXPORTED, JOINED, MATRIX, SAVE, UNPACK, FileKind

_START_BYTES = 1 << 16
_MOST_MEMBERS = 1 << 16
_SHOWN = 3
_LFS = FileKind("a Git LFS pointer in place of the file", "fetch the file itself: git lfs pull, or download it again")
_PAGE = FileKind("a web page", "the download failed or requires a login: download the file itself again")
_EMPTY = FileKind("empty", "write or download it again")
# First bytes of files.
_MAGIC: dict[bytes, FileKind] = {
    b"\x89HDF\r\n\x1a\n": FileKind("an HDF5 file, such as Keras's .h5", EXPORTED + "; or " + MATRIX),
    b"GGUF": FileKind("a GGUF file of llama.cpp, already quantised", "give the original model"),
    b"PAR1": FileKind("a Parquet file", MATRIX),
    b"ARROW1": FileKind("an Arrow file", MATRIX),
    b"FEA1": FileKind("a Feather file", MATRIX),
    b"SQLite format 3\0": FileKind("an SQLite database", MATRIX),
    b"%PDF": FileKind("a PDF document", EMBED),
    b"\x89PNG": FileKind("an image (PNG)", EMBED),
    b"\xff\xd8\xff": FileKind("an image (JPEG)", EMBED),
    b"GIF8": FileKind("an image (GIF)", EMBED),
    b"RIFF": FileKind("a RIFF file (audio, video or image)", EMBED),
    b"\x7fELF": FileKind("a program or library (ELF)", EMBED),
    b"BZh": FileKind("a bzip2 file", UNPACK),
    b"\xfd7zXZ\0": FileKind("an xz file", UNPACK),
    b"\x28\xb5\x2f\xfd": FileKind("a zstd file", UNPACK),
    b"\x04\x22\x4d\x18": FileKind("an lz4 file", UNPACK),
    b"\x5d\0\0": FileKind("an lzma file", UNPACK),
    b"7z\xbc\xaf\x27\x1c": FileKind("a 7z archive", UNPACK),
    b"Rar!": FileKind("a rar archive", UNPACK),
    b"\x1f\x8b": FileKind("a gzip file without word vectors as text", UNPACK),
    b"version https://git-lfs": _LFS,
}
_AT_FOUR: dict[bytes, FileKind] = {  # identifiers of flatbuffers
    b"TFL3": FileKind("an exported TFLite file", "compress accepts it; other commands require the PyTorch model"),
    b"ORTM": FileKind("an exported model in ORT format", EMBED),
    b"ET": FileKind("an ExecuTorch program (.pte)", "export the PyTorch model instead: " + SAVE),
}
_TABLE_MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"  # at the end of the .index of a TensorFlow checkpoint
_TF_CHECKPOINT = FileKind("a part of a TensorFlow checkpoint", EXPORTED)
_JSON: tuple[tuple[tuple[bytes, ...], FileKind], ...] = (
    (
        (b'"weight_map"', b'.bin"'),
        FileKind(
            "the index of a model in several files of torch.save",
            "load it with transformers, save it with save_pretrained, which writes safetensors, and give that folder",
        ),
    ),
    (
        (b'"weight_map"',),
        FileKind("the index of a safetensors model in several files", "give the folder that contains it"),
    ),
    (
        (b'"added_tokens"', b'"model"'),
        FileKind("a tokenizer (tokenizer.json)", "give the model, and this file as option --tokenizer of export"),
    ),
    (
        (b'"context_length"', b'"decoder"'),
        FileKind("the configuration of an ONNX Runtime GenAI model", "give the folder that contains it"),
    ),
    ((b'"model_type"',), FileKind("the configuration of a transformers model", "give the folder that contains it")),
    ((b'"nbformat"',), FileKind("a notebook", "run it, and save the model with edge_embed.save")),
)


def kind_in(path: Path) -> FileKind | None:
    """Return the kind of a file or folder of a known kind without a usable model; None for anything else.

    A gzip file may contain vectors, and a pickle may be from torch: their readers are tried first.
    """
    try:
        if path.is_symlink() and not path.exists():
            return _broken_link(path)
        if path.is_dir():
            return folder_kind(path)
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            return None
        if not state.st_size:  # also files of /proc, whose reading may block or fail
            return _EMPTY
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
            file.seek(max(0, file.seek(0, 2) - len(_TABLE_MAGIC)))
            end = file.read()
    except (OSError, ValueError):  # also a path with a NUL
        return None
    if not start:
        return _EMPTY
    if path.suffix == ".distcp":  # several archives of torch.save in one file
        return FileKind("a part of a distributed checkpoint of PyTorch", JOINED)
    if start.startswith(b"PK"):
        return _zip_kind(path)
    return _by_magic(start) or _by_end(path, end) or _by_structure(path, start) or _by_text(start)


def _broken_link(path: Path) -> FileKind:
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return FileKind(f"a link to {path.readlink()}, which links back to it", "give the path of the file")
    return FileKind(f"a link to {path.readlink()}, which does not exist", "give the path of the file")


def check_runtime_file(path: Path) -> None:
    """Raise for a file of another kind in place of a runtime's model; the reader reports a missing file.

    Raises:
        BadInputError: the message names the kind of the file.
    """
    kind = kind_in(path) or _kind_before_export(path)
    if kind is not None and kind not in (_AT_FOUR[b"TFL3"], _AT_FOUR[b"ORTM"]):
        raise BadInputError(f"{path}: {kind}")


def _kind_before_export(path: Path) -> FileKind | None:
    """Return the kind of a PyTorch file, whatever its suffix; None for other files."""
    if not path.is_file():  # opening a pipe would block
        return None
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except OSError:  # its reader reports the reason
        return None
    if start == b"PK" and _zip_names(path):  # of the kinds that `kind_in` does not know
        return FileKind("a saved model or checkpoint of PyTorch", EXPORT)
    if start[:1] == b"\x80":
        return FileKind("a pickle, such as torch.save wrote before version 1.6", EXPORT)
    return FileKind("a safetensors file", EXPORT) if start and is_safetensors(path) else None


def is_onnx(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is an ONNX model: format version, then a text or a number."""
    return start[:1] == b"\x08" and b"\x01" <= start[1:2] < b"\x20" and start[2:3] in (b"\x12", b"\x1a", b":")


def is_safetensors(path: Path) -> bool:
    """Return whether a file begins as safetensors: eight bytes with the length of a header, then a JSON object."""
    size = path.stat().st_size
    if size < 9:
        return False
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") <= size - 8


def is_npz(path: Path) -> bool:
    """Return whether a zip archive holds only numpy arrays."""
    names = _zip_names(path) or []
    return bool(names) and all(name.endswith(".npy") for name in names)


def is_tar(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is a tar archive."""
    return start[257:262] == b"ustar"


def _by_magic(start: bytes) -> FileKind | None:
    if is_tar(start):
        return FileKind("a tar archive", UNPACK)
    at_four = next((kind for magic, kind in _AT_FOUR.items() if start[4:].startswith(magic)), None)
    return at_four or next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def _by_end(path: Path, end: bytes) -> FileKind | None:
    of_checkpoint = end == _TABLE_MAGIC or re.search(r"\.data-\d{5}-of-\d{5}$", path.name)
    return _TF_CHECKPOINT if of_checkpoint else None


def _by_structure(path: Path, start: bytes) -> FileKind | None:
    """Return kinds without a magic number: messages of protobuf and msgpack."""
    if start[:1] == b"\n" and b"<unk>" in start[:64] and b"\x15" in start[:64]:
        return FileKind("a SentencePiece model, a tokenizer", "give its model")
    if path.suffix == ".mlmodel" and start[:1] == b"\x08":
        return FileKind("a Core ML model", f"use the PyTorch model instead: {SAVE}")
    if path.suffix == ".pb" and start[:1] in (b"\x08", b"\n"):
        return FileKind("a graph of TensorFlow", EXPORTED)
    if start[:1] == b"x" and _unfolded(start)[:1] == b"\x80":
        return FileKind("a compressed pickle, such as joblib's", MATRIX)
    if 0x81 <= start[0] <= 0x8F and re.match(rb"[\xa1-\xbf][\x20-\x7e]", start[1:3]):
        return FileKind("a msgpack file, such as Flax's", MATRIX)
    return None


def _unfolded(start: bytes) -> bytes:
    """Return the first bytes of zlib-compressed data, or none for anything else."""
    try:
        return zlib.decompressobj().decompress(start, 1)
    except zlib.error:
        return b""


def _by_text(start: bytes) -> FileKind | None:
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    lower = text[:200].lower()
    if lower.startswith((b"<!doctype html", b"<html")):
        return _PAGE
    if lower.startswith(b"<?xml"):
        return FileKind("an XML document", EMBED)
    if text.startswith((b"{", b"[")) and text[1:2] in (b"", b" ", b"\n", b"\r", b'"', b"{", b"[", b"}", b"]"):
        named = (kind for keys, kind in _JSON if all(key in start for key in keys))
        return next(named, FileKind("a JSON file", f"{SAVE}, or {MATRIX}"))
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return FileKind("a text file in UTF-16", "save it as UTF-8")
    is_text = b"\0" not in start and _printable(start)
    return (
        FileKind("a text file without vectors", f"{SAVE}, or a text file with a token and its numbers in each line")
        if (is_text)
        else None
    )


def _printable(start: bytes) -> bool:
    try:
        text = start[: _START_BYTES - 4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return len(text) > 20 and all(char.isprintable() or char in "\t\r\n\f" for char in text)


def _zip_kind(path: Path) -> FileKind | None:
    """Return the kind of a zip archive by the names in it; None if torch wrote it, or it is damaged."""
    names = _zip_names(path)
    if names is None:
        return None
    below = {name.partition("/")[2] for name in names}
    if "constants.pkl" in below or "bytecode.pkl" in below:
        return FileKind("a TorchScript archive, which contains code", f"use the PyTorch model instead: {SAVE}")
    if "data.pkl" in below or "models/model.json" in below:
        return None
    return _zip_of(names)


def _zip_names(path: Path) -> list[str] | None:
    """Return the names in a zip archive, or None for a damaged one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()[:_MOST_MEMBERS]
    except Exception:  # zipfile raises many unrelated types for a damaged directory
        return None


def _zip_of(names: list[str]) -> FileKind:
    if not names:
        return FileKind("a zip archive without members", UNPACK)
    if all(name.endswith(".npy") for name in names):
        return FileKind("an archive of numpy arrays (.npz)", MATRIX)
    if any(name.endswith(".weights.h5") for name in names):
        return FileKind("a Keras model (.keras)", EXPORTED)
    if "[Content_Types].xml" in names:
        return FileKind("an Office document", EMBED)
    if any(name.endswith((".mlpackage/Manifest.json", ".mlmodel")) for name in names):
        return FileKind("a Core ML model", f"use the PyTorch model instead: {SAVE}")
    if any(name.startswith("META-INF/") or name == "AndroidManifest.xml" for name in names):
        return FileKind("a Java archive or an app", EMBED)
    return FileKind(f"a zip archive of {_some(names)}", "unpack it, and give the model in it")


def _some(names: Iterable[str]) -> str:
    files = [name for name in names if not name.endswith("/")]
    shown = ", ".join("".join(char if char.isprintable() else "?" for char in name)[:60] for name in files[:_SHOWN])
    return f"{len(files)} files ({shown}{', ...' if len(files) > _SHOWN else ''})"
