"""Finished parts of a long computation on disk, from which an interrupted computation resumes.

A part is either complete under its name or absent (`edge_embed.files`). The name of a folder contains a hash of
everything that the parts depend on, so another table, other counts or another version of the package use another
folder. With several processes, only the first writes parts, so a resumed computation may have any number of them.
"""

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Self

from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.files import check_folder, new_file, output_errors
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.processes import ALONE, Arrays, Processes
from edge_embed.packed.container import opened, sha256, write

_PACKAGES = "edge-embed", "torch", "numpy"  # versions that the numbers may depend on
_MARK = ".edge-embed"  # marks a folder that this module created
_DIGEST = "sha256"  # key of a part's hash in the metadata of its file


class Kept:
    """Store of arrays by the name of a part.

    As a context manager, it deletes its parts after success, and its folder if it created the folder. After an error
    the parts stay for the next attempt.

    Args:
        folder: folder of the parts, which is created if missing. None: nothing is stored.
        processes: processes that compute the parts together.
    """

    def __init__(self, folder: Path | None = None, processes: Processes = ALONE) -> None:
        self._folder, self._processes = folder, processes
        self._tables: list[Path] = []

    def __call__(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a part; compute and store them if they are absent.

        Raises:
            BadInputError: if the file of a part is damaged.
            OutputError: if the file cannot be written.
        """
        if self._folder is None:
            return make()
        path = self._folder / f"{name}.safetensors"
        if self._processes.same(path.exists):
            return self._processes.same(lambda: read_part(path))
        made = make()
        self._processes.first(lambda: write_part(path, made))
        return made

    def of_table(self, table: DenseTable, weights: Tensor, *others: object) -> "Kept":
        """Return the store for a table [n, d], the weights [n] of its rows, and other inputs, known by their `repr`.

        Raises:
            OutputError: if the folder cannot be created.
        """
        if self._folder is None:
            return self
        folder = self._folder / self._processes.same(lambda: _name(table, weights, others))
        self._tables.append(folder)
        self._processes.first(lambda: _make(folder))
        return Kept(folder, self._processes)

    def __enter__(self) -> Self:
        folder = self._folder
        if folder is not None:  # fail now: the first part may take minutes
            self._processes.first(lambda: check_folder(folder, folder))
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        """Delete the parts of all tables unless there was an error, and the folder if it is empty."""
        if kind is not None or self._folder is None or not self._processes.is_first:
            return
        for folder in self._tables:
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            (self._folder / _MARK).unlink()
            self._folder.rmdir()


NOTHING = Kept()


def _name(table: DenseTable, weights: Tensor, others: tuple[object, ...]) -> str:
    size = table.num_embeddings, table.embedding_dim
    found = hashlib.sha256(repr((*map(version, _PACKAGES), size, *others)).encode())
    found.update(weights.numpy().data)
    if table.rotation is not None:
        found.update(table.rotation.numpy().data)
    for place in table.places(table.num_embeddings):
        found.update(table.stored(place).numpy().data)
    return found.hexdigest()[:32]


def _make(folder: Path) -> None:
    with output_errors(folder, within=folder.parent):
        if not folder.parent.exists():
            folder.parent.mkdir(parents=True)
            (folder.parent / _MARK).touch()
        folder.mkdir(exist_ok=True)


def write_part(path: Path, made: Arrays) -> None:
    """Write the arrays of a part."""
    with new_file(path, force=True) as temporary:  # a killed command may still be writing
        write(temporary, made, {_DIGEST: _digest(made)})


def read_part(path: Path) -> Arrays:
    """Return the arrays of a part.

    Raises:
        BadInputError: if its file is damaged.
    """
    try:
        with opened(str(path)) as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no mapping)
            written = (file.metadata() or {}).get(_DIGEST)
        if written != _digest(arrays):
            raise BadInputError("is damaged: its numbers differ from the written ones")
    except (OSError, BadInputError, AttributeError) as error:  # AttributeError: a dtype that numpy lacks
        raise BadInputError(f"{path}: {error}; delete it, and begin again") from error
    return arrays


def _digest(arrays: Arrays) -> str:
    described = [(name, array.dtype.str, array.shape, sha256(array)) for name, array in sorted(arrays.items())]
    return hashlib.sha256(repr(described).encode()).hexdigest()
