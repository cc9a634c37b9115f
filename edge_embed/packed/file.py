"""Packed tables in one safetensors file; ``FORMAT.md`` beside this file draws every byte."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader

from edge_embed.errors import BadInputError
from edge_embed.files import StrPath, new_file
from edge_embed.packed.container import Header, check_tensor, read_header, read_tensor, write
from edge_embed.packed.form import Packed
from edge_embed.packed.manifest import Manifest, TableEntry, located, parse_manifest, write_manifest
from edge_embed.packed.methods import METHODS

METADATA_KEY = "edge_embed"


def save_tables(path: StrPath, tables: Mapping[str, Packed], *, force: bool = False) -> None:
    """Save tables; the same tables give the same bytes.

    Args:
        path: The file to make.
        tables: By name: printable text without ``/`` (dots are fine: module paths are good names).
        force: Replace an existing file.

    Raises:
        BadInputError: A table or a name is wrong, or the file exists and ``force`` is false.
        OutputError: The file could not be written.
    """
    for name, table in tables.items():
        with located(f"table {name!r}"):  # a file is written only if it can be read back
            METHODS[table.method].from_tensors(table.tensors(), table.attributes(), table.padding_idx)
    tensors = {
        f"{name}/{key}": array for name, table in tables.items() for key, array in table.tensors().items()
    }
    metadata = {METADATA_KEY: write_manifest(tables)}
    with new_file(path, force=force) as temporary, temporary.open("wb") as file:
        write(file, tensors, metadata)


def load_tables(path: StrPath) -> dict[str, Packed]:
    """Load all tables and check everything: structure, hashes, and that the format allows every value.

    Returns:
        The tables, sorted by name.

    Raises:
        BadInputError: The file cannot be read, is damaged or is not ours: names the file, table and tensor.
    """
    with _opened(path) as (file, file_size):
        header, manifest = _read_manifest(file, file_size)
        return {name: _load_table(file, header, name, entry) for name, entry in manifest.tables.items()}


def read_manifest(path: StrPath) -> Manifest:
    """Read what a file holds from its header alone; the tensors are neither read nor hashed.

    Raises:
        BadInputError: As for :func:`load_tables`, as far as the header and the file size show it.
    """
    with _opened(path) as (file, file_size):
        return _read_manifest(file, file_size)[1]


@contextmanager
def _opened(path: StrPath) -> Iterator[tuple[BufferedReader, int]]:
    """Open a regular file (a pipe would block) and name it in every error."""
    with located(os.fsdecode(path)):
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise BadInputError("is no regular file, expected a packed .safetensors file")
            with open(path, "rb") as file:
                yield file, os.fstat(file.fileno()).st_size
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}") from error


def _read_manifest(file: BufferedReader, file_size: int) -> tuple[Header, Manifest]:
    header = read_header(file, file_size)
    if METADATA_KEY not in header.metadata:
        raise BadInputError(
            f"has no {METADATA_KEY!r} metadata: a safetensors file without packed tables; "
            f"make one with edge_embed.packed.save_tables"
        )
    if len(header.metadata) != 1:
        raise BadInputError(f"metadata: got keys {sorted(header.metadata)}, expected only {METADATA_KEY!r}")
    manifest = parse_manifest(header.metadata[METADATA_KEY], file_size)
    specs = manifest.tensor_specs()
    if header.tensors.keys() != specs.keys():
        missing, extra = specs.keys() - header.tensors.keys(), header.tensors.keys() - specs.keys()
        raise BadInputError(f"tensors: missing {sorted(missing)}, not in the manifest: {sorted(extra)}")
    for name, spec in specs.items():
        with located(f"tensor {name!r}"):
            check_tensor(header.tensors[name], spec)
    return header, manifest


def _load_table(file: BufferedReader, header: Header, name: str, entry: TableEntry) -> Packed:
    tensors = {}
    for tensor, spec in entry.shape.tensor_specs().items():
        with located(f"tensor {f'{name}/{tensor}'!r}"):
            tensors[tensor], digest = read_tensor(file, header, f"{name}/{tensor}", spec)
            if digest != entry.sha256[tensor]:
                raise BadInputError(f"its hash is {digest}, expected {entry.sha256[tensor]}: it is damaged")
    with located(f"table {name!r}"):
        return METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)
