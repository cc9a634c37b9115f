"""TFLite files of other tools: their dense tables, and the files that are attached to them."""

import mmap
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_embed.compression.tflite.attached_contents import open_content, take_in
from edge_embed.compression.tflite.constant_origins import Origins
from edge_embed.compression.tflite.dense_tables import ForeignTable, find_tables
from edge_embed.compression.tflite.output_layers import OutputLayer, output_layers
from edge_embed.compression.tflite.overlaps import check_parts
from edge_embed.compression.tflite.tensor_names import name_tensors
from edge_embed.errors import BadInputError, one_line
from edge_embed.exporters.tflite.flatbuffer import IDENTIFIER, MALFORMED, load_schema

_ARCHIVE_ENTRY = re.compile(rb"PK\x03\x04[\x0a\x14\x2d]\x00")  # of zip, with the versions in use
_ENTRY_MARK, _ENTRY_BYTES = b"PK\x03\x04", 6
_PART = 16 << 20
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True)
class ForeignFile:
    """A file with its tables.

    Attributes:
        path: path of the file.
        files: the file, and external files with its weights.
        model: its model, as the classes of the schema, with all contents in its buffers.
        origins: its constants.
        found: the constants with row lookups, by name.
        outputs: output layers that share none of them.
        attached: contents of a zip archive behind the model, such as its vocabulary, and the comment of the archive.
    """

    path: Path
    files: tuple[Path, ...]
    model: Any
    origins: Origins
    found: Mapping[str, ForeignTable]
    outputs: tuple[OutputLayer, ...]
    attached: tuple[list[tuple[zipfile.ZipInfo, bytes]], bytes]

    @property
    def nbytes(self) -> int:
        """Return the bytes of all its files."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def tables(self) -> dict[str, ForeignTable]:
        """Return the tables whose rows are read."""
        return {name: table for name, table in self.found.items() if not table.unread}


def read_foreign(path: Path) -> ForeignFile:
    """Read a file.

    Raises:
        BadInputError: the file is missing or damaged, or its external weights are not found.
        EdgeEmbedError: the package ai-edge-litert is not installed.
    """
    with damaged(path):
        content = _open(path)
        files, model, origins = _read(path, content)
        return ForeignFile(path, files, model, origins, *_dense(model, origins), _attached(path, content))


def find_dense(path: Path) -> tuple[Mapping[str, ForeignTable], tuple[OutputLayer, ...]]:
    """Return the constants with row lookups, by name, and output layers that share none of them.

    Attached files are not read; errors are those of `read_foreign`.
    """
    with damaged(path):
        _, model, origins = _read(path, _open(path))
        return _dense(model, origins)


def _dense(model: Any, origins: Origins) -> tuple[Mapping[str, ForeignTable], tuple[OutputLayer, ...]]:
    tables = find_tables(model, origins)
    buffers = {table.buffer for table in tables.values()}
    found = output_layers(model, origins, buffers)
    return tables, tuple(layer for layer in found if layer.name not in tables)


def _open(path: Path) -> mmap.mmap:
    if not path.is_file():
        found = "is not a regular file" if path.exists() else "there is no such file"
        raise BadInputError(f"{path}: {found}, expected a TFLite model: check the path")
    content = open_content(path)
    if content[4:8] != IDENTIFIER:
        got = f"got {content[4:8]!r} as bytes 4 to 7, expected {IDENTIFIER!r}"
        raise BadInputError(f"{path}: {got}: check that it is a TFLite model")
    return content


def _read(path: Path, content: mmap.mmap) -> tuple[tuple[Path, ...], Any, Origins]:
    """Return the files of a model, the model with all contents, and its constants."""
    schema = load_schema()
    check_parts(schema.Model.GetRootAs(content, 0), len(content))
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    if not model.buffers or not model.subgraphs or not model.operatorCodes:
        raise ValueError("it has no buffers, subgraphs or operators")
    name_tensors(model)
    return (path, *take_in(model, content, path)), model, Origins(model)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Convert any error of a file to one that reports it as damaged."""
    try:
        yield
    except BadInputError:
        raise
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MALFORMED as error:
        raise BadInputError(f"{path}: is damaged ({one_line(error)}): get it again") from error


def _attached(path: Path, content: mmap.mmap) -> tuple[list[tuple[zipfile.ZipInfo, bytes]], bytes]:
    if not zipfile.is_zipfile(path):
        if _has_archive_entry(content):
            raise BadInputError(f"{path}: the zip archive after the model is truncated: get the file again")
        return [], b""
    try:
        with zipfile.ZipFile(path) as archive:
            return [(entry, archive.read(entry)) for entry in archive.infolist()], archive.comment
    except _BROKEN_ARCHIVE as error:
        raise BadInputError(f"{path}: the zip archive after the model is damaged: {one_line(error)}") from error


def _has_archive_entry(content: mmap.mmap) -> bool:
    """Return whether an archive begins in a file; the slow expression runs only on parts with a fast mark."""
    for begin in range(0, len(content), _PART):
        part = content[begin : begin + _PART + _ENTRY_BYTES]
        if _ENTRY_MARK in part and _ARCHIVE_ENTRY.search(part):
            return True
    return False
