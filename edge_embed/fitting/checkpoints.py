"""Parts of a computation that takes long, kept on disk: begun again after it was interrupted, it takes them from there.

A part is complete under its name, or not there (`edge_embed.files`). What the parts of a table depend on is in the name
of their folder: another table, other counts or another version of the package look elsewhere. Of several
processes the first has the parts, so that it does not matter how many begin again.
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

_PACKAGES = "edge-embed", "torch", "numpy"  # which the numbers may depend on
_MARK = ".edge-embed"  # a file in a folder that was made here
_DIGEST = "sha256"  # of a part, in the metadata of its file


class Kept:
    """Arrays by the name of a part.

    As a context, it is empty after what succeeds, and gone if it was made here; what fails leaves the parts for the
    next time.

    Args:
        folder: where they are; it is made where it is missing. None: nothing is kept.
        processes: who makes the parts together.
    """

    def __init__(self, folder: Path | None = None, processes: Processes = ALONE) -> None:
        self._folder, self._processes = folder, processes
        self._tables: list[Path] = []

    def __call__(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part, made now if they are not there.

        Raises:
            BadInputError: if the file of a part is damaged.
            OutputError: if it cannot be written.
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
        """Parts of what is computed from a table [n, d], what its rows count [n], and other things, by their `repr`.

        Raises:
            OutputError: if there can be no such folder.
        """
        if self._folder is None:
            return self
        folder = self._folder / self._processes.same(lambda: _name(table, weights, others))
        self._tables.append(folder)
        self._processes.first(lambda: _make(folder))
        return Kept(folder, self._processes)

    def __enter__(self) -> Self:
        folder = self._folder
        if folder is not None:  # minutes of work may lie before the first part
            self._processes.first(lambda: check_folder(folder, folder))
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        """Unless there was an error, delete the parts of all tables, and the folder if nothing else is there."""
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
    with new_file(path, force=True) as temporary:  # a command that was killed may end a little later
        write(temporary, made, {_DIGEST: _digest(made)})


def read_part(path: Path) -> Arrays:
    """The arrays of a part.

    Raises:
        BadInputError: its file is damaged.
    """
    try:
        with opened(str(path)) as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no mapping)
            written = (file.metadata() or {}).get(_DIGEST)
        if written != _digest(arrays):
            raise BadInputError("is damaged: its numbers are not those that were written")
    except (OSError, BadInputError, AttributeError) as error:  # the last of types that numpy has not
        raise BadInputError(f"{path}: {error}: delete it, and begin again") from error
    return arrays


def _digest(arrays: Arrays) -> str:
    described = [(name, array.dtype.str, array.shape, sha256(array)) for name, array in sorted(arrays.items())]
    return hashlib.sha256(repr(described).encode()).hexdigest()
