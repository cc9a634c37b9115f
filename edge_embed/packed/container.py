"""Wrapper of the ``safetensors`` library that adds errors, file permissions and byte order."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from edge_embed.errors import BadInputError


def write(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write arrays without copying them. Give one metadata key: the library writes several in any order."""
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    stored = {name: little_endian(array) for name, array in tensors.items()}
    try:
        save_file(stored, path, dict(metadata))
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))  # the only place with the number
        if number:
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise BadInputError(f"the tables cannot be stored: {error}; save fewer in one file") from error
    path.chmod(mode)  # the library creates files that only their owner can read


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Open a file and read its header. The file is not mapped: a mapped file that shrinks would kill the process."""
    try:
        with safe_open(path, framework="numpy", backend="pread") as file:
            yield file
    except SafetensorError as error:
        raise BadInputError(f"is damaged or not a safetensors file: {str(error)!r:.300}") from error


def sha256(array: NDArray[Any]) -> str:
    """Return the hash of a tensor's stored bytes: little-endian, C order."""
    return hashlib.sha256(little_endian(array).data).hexdigest()


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as it is stored, without a copy if it is stored so already."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
