"""Reader of files from ``torch.save``, weights and other objects, which runs no code from them.

There are two formats: a zip archive (torch 1.6 and later), and before that a sequence of pickles followed by the
storages.
"""

import io
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from edge_embed.errors import BadInputError, located
from edge_embed.input_file import mapped
from edge_embed.program.archive import Archive
from edge_embed.program.foreign_pickle import MALFORMED, foreign_pickle, is_old_torch_save
from edge_embed.program.inert_pickle import Inert, Items, read_inert
from edge_embed.program.stored_tensors import StoredBytes, Tensors, storage_dtype

_MOST_STORAGES = 1 << 16
_NUMBER = struct.Struct("<q")


def read_checkpoint(path: Path) -> Any:
    """Return the object of a ``torch.save`` file: mappings, lists, numbers, tensors, and `Inert` for all other objects.

    Tensors are views of the file, which is memory-mapped.

    Raises:
        BadInputError: the file is damaged, or not written by ``torch.save``.
    """
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    try:
        return _of_archive(Archive(path)) if is_archive else _of_old_file(path)
    except BadInputError:
        raise
    except MALFORMED as error:
        raise BadInputError(
            f"{path}: is damaged or not a file of torch.save ({error!s:.200}): save it again with torch.save"
        ) from error


def _of_archive(archive: Archive) -> Any:
    if "data.pkl" not in archive or "constants.pkl" in archive:
        raise BadInputError(f"{archive.path}: is a zip archive of another tool, expected a file of torch.save")
    is_big_endian = "byteorder" in archive and archive.read("byteorder") == b"big"
    whole = memoryview(archive.content)
    made: dict[tuple[str, torch.dtype], StoredBytes] = {}

    def storage(identity: Any) -> Any:
        _, kind, key, *_ = _checked(identity)
        dtype = storage_dtype(kind)
        if dtype is None:
            return Inert("torch.Storage")
        if (key, dtype) not in made:
            begin, size = archive.span(f"data/{key}")
            made[key, dtype] = StoredBytes(whole[begin : begin + size], dtype, is_big_endian)
        return made[key, dtype]

    tensors = Tensors(len(archive.content))
    return read_inert(io.BytesIO(archive.read("data.pkl")), tensors.rebuild, storage)


def _of_old_file(path: Path) -> Any:
    """Read magic number, version, facts of the machine, the object, the keys of its storages, and the storages."""
    if not is_old_torch_save(path):
        raise BadInputError(f"{path}: {foreign_pickle(path)}")
    with path.open("rb") as file, located(str(path)):
        content = mapped(file)
    read_inert(content, {}, _none)  # type: ignore[arg-type]  # a map can be read like a file
    read_inert(content, {}, _none)  # type: ignore[arg-type]
    machine = read_inert(content, {}, _none)  # type: ignore[arg-type]
    is_big_endian = isinstance(machine, Items) and machine.get("little_endian") is False
    begin = content.tell()
    sizes: dict[str, int] = {}
    read_inert(content, {}, _noting(sizes))  # type: ignore[arg-type]
    keys = read_inert(content, {}, _none)  # type: ignore[arg-type]
    spans = _spans(content, keys, sizes)
    whole = memoryview(content)
    made: dict[tuple[int, int, torch.dtype], StoredBytes] = {}

    def storage(identity: Any) -> Any:
        if _is_class(identity):
            return identity[1]
        _, kind, key, _, _, *view = _checked(identity)
        dtype = storage_dtype(kind)
        if dtype is None or key not in spans:
            return Inert("torch.Storage")
        first, last = spans[key]
        if view and view[0] is not None:  # a part of a storage, in numbers
            _, offset, count = view[0]
            if not all(type(number) is int and number >= 0 for number in (offset, count)):
                raise ValueError("a part of a storage has an invalid size")
            first, last = first + offset * dtype.itemsize, min(last, first + (offset + count) * dtype.itemsize)
        place = first, last, dtype
        if place not in made:
            if len(made) > _MOST_STORAGES:
                raise ValueError(f"it has more than {_MOST_STORAGES} storages")
            made[place] = StoredBytes(whole[first:last], dtype, is_big_endian)
        return made[place]

    content.seek(begin)
    return read_inert(content, Tensors(len(content)).rebuild, storage)  # type: ignore[arg-type]


def _checked(identity: Any) -> tuple[Any, ...]:
    """Return a persistent id as torch writes it: ``storage``, class, key, device, count, and a part or None."""
    sound = isinstance(identity, tuple) and len(identity) in (5, 6) and identity[0] == "storage"
    if not sound or not isinstance(identity[2], str) or type(identity[4]) is not int:
        raise ValueError("a storage has an invalid identifier")
    return identity  # type: ignore[no-any-return]


def _is_class(identity: Any) -> bool:
    """Return whether a persistent id of an old file is a module's class with its source code."""
    return isinstance(identity, tuple) and len(identity) == 4 and identity[0] == "module"


def _none(_: Any) -> None:
    """Return None: the pickles around the object have no storages."""


def _noting(sizes: dict[str, int]) -> Callable[[Any], Any]:
    """Return a function that records the item size of each storage in ``sizes``."""

    def note(identity: Any) -> Any:
        if _is_class(identity):
            return identity[1]
        _, kind, key, *_ = _checked(identity)
        dtype = storage_dtype(kind)
        if dtype is not None:
            sizes[key] = dtype.itemsize
        return None

    return note


def _spans(content: mmap.mmap, keys: Any, sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return begin and end of the bytes of each storage."""
    spans: dict[str, tuple[int, int]] = {}
    at = content.tell()
    for key in keys if isinstance(keys, list) else []:
        if not isinstance(key, str) or key not in sizes:
            raise ValueError("a storage has an unknown type")
        (count,) = _NUMBER.unpack(content[at : at + _NUMBER.size])
        at += _NUMBER.size
        if not 0 <= count <= (len(content) - at) // sizes[key]:
            raise ValueError(f"a storage of {count} numbers exceeds the file")
        spans[key] = (at, at + count * sizes[key])
        at = spans[key][1]
    return spans
