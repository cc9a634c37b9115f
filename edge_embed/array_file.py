"""Array files of numpy, ``.npy`` and ``.npz``: sizes in a file are checked before memory is allocated.

numpy's own loader trusts the header of an array, and inflates an archive of any size. Here a header is short, and an
array has no more numbers than the file has bytes for. An archive inflates to at most a multiple of its size. No objects
are unpickled.
"""

import io
import math
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, one_line
from edge_embed.input_file import check_regular

_MOST_HEADER = 4096  # bytes; plain arrays take 128
_MOST_DIMENSIONS = 32
_KINDS = "biufcSU"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the methods that numpy writes
_ENCRYPTED = 1
_ALWAYS = 16 << 20  # bytes to which every archive may inflate
_MOST_EXPANSION = 20  # ids of a small vocabulary and their masks compress to a tenth of their bytes
_BLOCK = 1 << 20


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of a ``.npy`` file.

    Raises:
        BadInputError: there is no such file, it is damaged or shorter than its header states, or it holds anything but
            numbers and texts. The message does not name the path.
    """
    expected = "an array (.npy)"
    size = check_regular(path, expected)
    try:
        with path.open("rb") as file:
            if file.read(2) == b"PK":
                raise BadInputError("is an archive (.npz), expected one array (.npy): numpy.save writes one")
            file.seek(0)
            return _array(file, size)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


class ArrayArchive:
    """An open ``.npz`` archive.

    Attributes:
        names: names of its arrays, in the order of the archive.
    """

    def __init__(self, archive: zipfile.ZipFile, file_bytes: int) -> None:
        self._archive, self._most = archive, max(_ALWAYS, _MOST_EXPANSION * file_bytes)
        members = [member for member in archive.infolist() if not member.filename.endswith("/")]
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self.names: Sequence[str] = tuple(self._members)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array; all arrays together may take at most a multiple of the archive's size.

        Raises:
            BadInputError: it is damaged, is no array, or is larger than a normal archive inflates to.
        """
        member = self._members[name]
        if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
            raise BadInputError(f"array {name:.80}: is encrypted, or has a compression that numpy does not use")
        self._most -= member.file_size
        if self._most < 0:
            raise BadInputError(
                f"array {name:.80}: decompresses to {member.file_size:,} bytes; write it with numpy.savez"
            )
        try:
            with self._archive.open(member) as stream:
                array = _array(stream, member.file_size)
                if stream.read(1):  # zipfile compares the checksum at the end
                    raise BadInputError("contains more bytes after its numbers")
        except BadInputError as error:
            raise BadInputError(f"array {name:.80}: is damaged, or is not an array: {error}") from error
        except _BROKEN as error:
            raise BadInputError(f"array {name:.80}: is damaged ({one_line(error)})") from error
        return array


@contextmanager
def opened_archive(path: Path) -> Iterator[ArrayArchive]:
    """Open an ``.npz`` archive.

    Raises:
        BadInputError: it is no archive, or is damaged. The message does not name the path.
    """
    size = check_regular(path, "an archive of arrays (.npz)")
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error
    except _BROKEN as error:
        raise BadInputError(f"is not an .npz archive ({one_line(error)})") from error
    with archive:
        yield ArrayArchive(archive, size)


# Exceptions of zipfile and zlib on a damaged archive.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, OverflowError,
    IndexError, KeyError, TypeError, struct.error,
)  # fmt: skip


def _array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array at the start of a stream of ``size`` bytes."""
    start = io.BytesIO(stream.read(min(size, _MOST_HEADER)))
    shape, in_fortran_order, dtype = _header(start)
    has, nbytes = size - start.tell(), math.prod(shape) * dtype.itemsize
    if nbytes > has:
        raise BadInputError(f"declares {list(shape)} of {dtype}, {nbytes:,} bytes, but contains {has:,}")
    content, at = np.empty(nbytes, np.uint8), 0
    while at < nbytes:
        block = start.read(nbytes - at) or stream.read(min(_BLOCK, nbytes - at))
        if not block:
            raise BadInputError(f"ends after {at:,} bytes of {nbytes:,}")
        content[at : at + len(block)] = np.frombuffer(block, np.uint8)
        at += len(block)
    if dtype.kind == "U" and content.view(np.dtype("u4").newbyteorder(dtype.byteorder)).max(initial=0) > sys.maxunicode:
        raise BadInputError("contains a text with invalid characters")  # str() raises a SystemError on it
    return content.view(dtype).reshape(shape, order="F" if in_fortran_order else "C")


def _header(start: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type from a header."""
    try:
        version = npy.read_magic(start)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in readers:
            raise BadInputError(f"has the version {version} of the format, expected 1.0 or 2.0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about old spellings
            shape, in_fortran_order, dtype = readers[version](start, max_header_size=_MOST_HEADER)
    except BadInputError:
        raise
    except Exception as error:  # the header is parsed as Python, which may raise anything
        raise BadInputError(f"has no array header ({one_line(error)})") from error
    if dtype.kind not in _KINDS or not dtype.itemsize:
        raise BadInputError(f"contains {dtype!s:.80}, expected numbers or texts")
    is_shape = len(shape) <= _MOST_DIMENSIONS and all(type(size) is int and size >= 0 for size in shape)
    if not is_shape or math.prod(filter(None, shape)) > 1 << 62:
        raise BadInputError(f"has the invalid shape {shape!s:.80}")
    return shape, in_fortran_order, dtype
