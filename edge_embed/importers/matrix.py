"""``.npy`` and ``.npz``: one matrix [n, d] of floats, without tokens. Nothing is unpickled.

A ``.npz`` member that numpy compressed is checked against its size in the archive before memory is allocated.
"""

import ast
import struct
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.importers.row_tokens import check_size
from edge_embed.importers.word_vectors import Vectors, check_finite
from edge_embed.input_file import mapped

MAGIC = b"\x93NUMPY"
_LENGTHS = {1: struct.Struct("<H"), 2: struct.Struct("<I"), 3: struct.Struct("<I")}  # of the header, by version
_LARGEST_HEADER = 1 << 16
_MOST_MEMBERS = 1 << 12
_MOST_EXPANSION = 100  # numbers of tables compress by less than a factor of two
_SMALL = 64 << 20
_FLOATS = ("f2", "f4", "f8")
_LISTED = 20
_NAMED = "name it with compress --module NAME"
_ENCRYPTED = 1


@dataclass(frozen=True)
class _Header:
    """Header of an array: its bytes, dtype, sizes and order."""

    num_bytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def is_table(self) -> bool:
        return len(self.shape) == 2 and self.dtype.str[1:] in _FLOATS

    @property
    def array_bytes(self) -> int:
        rows, columns = self.shape
        return rows * columns * self.dtype.itemsize

    def spelled(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


def read_npy(path: Path) -> Vectors:
    """Map the matrix of a ``.npy`` file.

    Raises:
        BadInputError: it is damaged, or not a two-dimensional array of floats.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = _header(file, size)
        _check(header, "")
        content = mapped(file)
    if header.num_bytes + header.array_bytes != size:
        raise BadInputError(
            f"got {size - header.num_bytes} bytes, expected {header.array_bytes} for {header.spelled()}: fetch it again"
        )
    order: Literal["F", "C"] = "F" if header.is_fortran else "C"
    array: NDArray[Any] = np.ndarray(header.shape, header.dtype, content, header.num_bytes, order=order)
    return _vectors(array, "vectors", path)


def read_npz(path: Path, tables: Collection[str]) -> Vectors:
    """Read one matrix of a ``.npz`` file.

    Args:
        path: the file.
        tables: name of the matrix; empty for the only matrix of floats.

    Raises:
        BadInputError: it is damaged, there is no such matrix, or there are several and no name is given.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()[:_MOST_MEMBERS]}
            read = {name: _header_in(archive, member) for name, member in members.items()}
            headers = {name: header for name, header in read.items() if header is not None}
            name = _chosen(headers, tables)
            header, member = headers[name], members[name]
            _check(header, f"{name}: ")
            _check_member(header, member, name)
            with archive.open(member) as file:
                file.read(header.num_bytes)
                content = bytearray(header.array_bytes)
                filled = _fill(file, content)
                if filled != len(content) or file.read(1):
                    got = f"{filled} bytes" if filled < len(content) else "more bytes"
                    raise BadInputError(f"{name}: got {got}, expected {len(content)} for {header.spelled()}")
    except BadInputError:
        raise
    except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise BadInputError(f"damaged .npz file: {error!s:.200}: fetch it again") from error
    array = np.frombuffer(content, header.dtype).reshape(header.shape, order="F" if header.is_fortran else "C")
    return _vectors(array, name, path)


def _fill(file: IO[bytes], content: bytearray) -> int:
    view, at = memoryview(content), 0
    while got := file.readinto(view[at:]):  # type: ignore[attr-defined]
        at += got
    return at


def _vectors(array: NDArray[Any], name: str, path: Path) -> Vectors:
    table = _tensor(array)
    check_finite(table, lambda row: f"row {row}")
    return Vectors(table, None, name, path)


def _tensor(array: NDArray[Any]) -> Tensor:
    """Return a tensor in native byte order; float64 becomes float32, the dtype of models."""
    wanted = np.dtype(np.float32) if array.dtype.itemsize == 8 else array.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):  # becomes an infinity, which is refused later
        return torch.from_numpy(np.ascontiguousarray(array.astype(wanted, copy=False)))


def _header(file: IO[bytes], size: int) -> _Header:
    start = file.read(8)
    length = _LENGTHS.get(start[6]) if len(start) == 8 and start.startswith(MAGIC) else None
    if length is None:
        raise BadInputError("is damaged, or written by a later numpy: save it again with numpy.save")
    stored = file.read(length.size)
    num_bytes = length.unpack(stored)[0] if len(stored) == length.size else size
    if num_bytes > min(size, _LARGEST_HEADER):
        raise BadInputError("is damaged: its header exceeds the file: fetch it again")
    try:
        described = ast.literal_eval(file.read(num_bytes).decode("latin-1").strip())
        dtype, shape, is_fortran = (described[key] for key in ("descr", "shape", "fortran_order"))
        sizes = tuple(size for size in shape if type(size) is int and 0 <= size < 1 << 48)
        if not isinstance(dtype, str) or len(sizes) != len(shape):
            raise ValueError("an array of records or objects")
        return _Header(8 + length.size + num_bytes, np.dtype(dtype), sizes, bool(is_fortran))
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadInputError(
            f"its header describes no array of numbers ({error!s:.80}), expected a matrix of floats: save one with "
            "numpy.save"
        ) from error


def _header_in(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Header | None:
    """Return the header of a member, or None if it is not an array of numbers."""
    if member.flag_bits & _ENCRYPTED:
        raise BadInputError(f"{member.filename:.80}: is encrypted: save it with numpy.savez")
    with archive.open(member) as file:
        try:
            return _header(file, member.file_size)
        except BadInputError:
            return None


def _check(header: _Header, place: str) -> None:
    if not header.is_table:
        whole = header.dtype.kind in "iub" and len(header.shape) == 2
        remedy = "multiply codes with their scales first" if whole else "save one table [n, d]"
        raise BadInputError(
            f"{place}got {header.spelled()}, expected a matrix [n, d] of float16, float32 or float64: {remedy}"
        )
    check_size(*header.shape)


def _check_member(header: _Header, member: zipfile.ZipInfo, name: str) -> None:
    """Raise for sizes that differ from those in the archive."""
    if header.num_bytes + header.array_bytes != member.file_size:
        raise BadInputError(
            f"{name}: got {member.file_size} bytes, expected {header.num_bytes + header.array_bytes} for a file of "
            f"{header.spelled()}: fetch it again"
        )
    if member.file_size > max(_MOST_EXPANSION * member.compress_size, _SMALL):
        raise BadInputError(
            f"{name}: content exceeds {_MOST_EXPANSION} times its compressed size: save it with numpy.save"
        )


def _chosen(headers: dict[str, _Header], tables: Collection[str]) -> str:
    found = [name for name, header in headers.items() if header.is_table]
    shown = ", ".join(f"{name:.80}" for name in found[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    if not found:
        raise BadInputError(f"got no matrix of floats among {len(headers)} arrays, expected a table of vectors [n, d]")
    if not tables and len(found) > 1:
        raise BadInputError(f"got {len(found)} matrices, expected one: {_NAMED}: {shown}")
    name, *others = tables or found
    if others or name not in found:
        raise BadInputError(f"got {', '.join(tables):.200}, expected the name of one matrix among {shown}")
    return name
