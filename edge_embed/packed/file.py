"""Packed tables in one safetensors file; ``FORMAT.md`` beside this file specifies every byte."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from edge_embed.errors import BadInputError, located
from edge_embed.files import StrPath, new_file
from edge_embed.packed.container import opened, sha256, write
from edge_embed.packed.manifest import Manifest, TableEntry, parse_manifest, write_manifest
from edge_embed.packed.packed_form import METHODS, PackedTable

METADATA_KEY = "edge_embed"
_DTYPE_CODES = {
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "int8": "I8",
    "int32": "I32",
    "float16": "F16",
    "float32": "F32",
}


def save_tables(path: StrPath, tables: Mapping[str, PackedTable], *, force: bool = False) -> None:
    """Save tables; the same tables give the same bytes.

    Args:
        path: File to create.
        tables: Tables by name: printable text without ``/``. Dots are allowed, so module paths are valid names.
        force: Whether to replace an existing file.

    Raises:
        BadInputError: A table or a name is wrong, or the file exists and ``force`` is false.
        OutputError: The file could not be written.
    """
    for name, table in tables.items():
        with located(f"table {name!r}"):  # never write a file that cannot be read back
            METHODS[table.method].from_tensors(table.tensors(), table.attributes(), table.padding_idx)
    tensors = {f"{name}/{key}": array for name, table in tables.items() for key, array in table.tensors().items()}
    metadata = {METADATA_KEY: write_manifest(tables)}
    with new_file(path, force=force) as temporary:
        write(temporary, tensors, metadata)


def load_tables(path: StrPath) -> dict[str, PackedTable]:
    """Load all tables and check everything: structure, hashes, and that the format allows every value.

    Returns:
        The tables, sorted by name.

    Raises:
        BadInputError: The file cannot be read, is damaged or is not a packed file. The message names the file, table
            and tensor.
    """
    with _opened(path) as (file, manifest):
        return {name: _load_table(file, name, entry) for name, entry in manifest.tables.items()}


def read_manifest(path: StrPath) -> Manifest:
    """Return the manifest from the header of a file; the tensors are neither read nor hashed.

    Raises:
        BadInputError: As for :func:`load_tables`, as far as the header and the file size show it.
    """
    with _opened(path) as (_, manifest):
        return manifest


def tensor_hashes(path: StrPath) -> Iterator[tuple[str, str, str]]:
    """Hash the stored tensors, with one tensor in memory at a time; the manifest has the expected hashes.

    Yields:
        Table, tensor, and the SHA-256 of its bytes.

    Raises:
        BadInputError: As for :func:`read_manifest`.
    """
    with _opened(path) as (file, manifest):
        for name, entry in manifest.tables.items():
            for tensor in entry.sha256:
                yield name, tensor, sha256(file.get_tensor(f"{name}/{tensor}"))


@contextmanager
def _opened(path: StrPath) -> Iterator[tuple[Any, Manifest]]:
    """Open a regular file (a pipe would block), check its header and name the file in every error."""
    name = os.fsdecode(path)
    with located(name):
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise BadInputError("is not a regular file, expected a packed .safetensors file")
            with open(path, "rb") as file:  # the library reports every failure to open as "not found"
                file_size = os.fstat(file.fileno()).st_size
            with opened(name) as tensors:
                yield tensors, _checked_manifest(tensors, file_size)
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}") from error


def _checked_manifest(file: Any, file_size: int) -> Manifest:
    """Return the manifest after a check that the tensors match it; the library has checked that they tile the file."""
    metadata = file.metadata() or {}
    if METADATA_KEY not in metadata:
        raise BadInputError(
            f"has no {METADATA_KEY!r} metadata: a safetensors file without packed tables; "
            f"make one with edge_embed.packed.save_tables"
        )
    if len(metadata) != 1:
        raise BadInputError(f"metadata: got keys {sorted(metadata)}, expected only {METADATA_KEY!r}")
    manifest = parse_manifest(metadata[METADATA_KEY], file_size)
    specs, names = manifest.tensor_specs(), set(file.keys())
    if names != specs.keys():
        missing, extra = specs.keys() - names, names - specs.keys()
        raise BadInputError(f"tensors: missing {sorted(missing)}, not in the manifest: {sorted(extra)}")
    for name, spec in specs.items():
        stored = file.get_slice(name)
        dtype, shape = stored.get_dtype(), stored.get_shape()
        if (dtype, shape) != (_DTYPE_CODES[spec.dtype], list(spec.shape)):
            expected = f"{_DTYPE_CODES[spec.dtype]} {list(spec.shape)} as in the manifest"
            raise BadInputError(f"tensor {name!r}: got {dtype} {shape}, expected {expected}")
    return manifest


def _load_table(file: Any, name: str, entry: TableEntry) -> PackedTable:
    tensors: dict[str, NDArray[Any]] = {}
    for tensor, expected in entry.sha256.items():
        tensors[tensor] = file.get_tensor(f"{name}/{tensor}")
        digest = sha256(tensors[tensor])
        if digest != expected:
            got = f"its hash is {digest}, expected {expected}"
            raise BadInputError(f"tensor {f'{name}/{tensor}'!r}: {got}: it is damaged")
    with located(f"table {name!r}"):
        return METHODS[entry.method].from_tensors(tensors, entry.shape.attributes(), entry.padding_idx)
