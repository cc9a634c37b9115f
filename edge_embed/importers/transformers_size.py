"""Size checks of the files of a transformers model, before the library builds anything from them.

A configuration of a few bytes can request any number of layers, and an index can name any file. All weights of a model
are in the folder, so the model has hardly more layers, parameters and numbers than the headers of its files. A much
larger request is refused when it is read, or while the model is built; the library itself has no limit.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from edge_embed.errors import BadInputError, located
from edge_embed.importers.json_object import read_json_object
from edge_embed.input_file import check_regular, path_beside
from edge_embed.packed.container import opened
from edge_embed.program.file_kind import kind_in

_CONFIG = "config.json"
_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_JSON = (_CONFIG, "generation_config.json", _INDEX)
_MOST_JSON = 64 << 20
_REPEATED = re.compile("layer|depth|block|stage")  # in keys: parts that usually have their own weights
_LISTED = re.compile("label|expert|group|head")  # counted by a dimension of a weight
# Tied and split weights are a few times the stored ones, and a model may use a layer several times.
_MOST_TIMES, _ALWAYS = 8, 1000
_MODULES = 64  # for each weight
_NUMBERS = 1 << 26  # of masks and angles, which are computed and not stored, and of the smallest models
_CACHE = "snapshots", "blobs"  # folders of the hub's cache; the first has links into the second


@dataclass(frozen=True)
class Stored:
    """Sizes in the headers of all weights.

    Attributes:
        tensors: number of tensors.
        numbers: number of numbers in all of them.
        largest: largest dimension.
        integers: keys of tensors of integers.
    """

    tensors: int
    numbers: int
    largest: int
    integers: frozenset[str] = frozenset()


def check_files(folder: Path) -> Stored:
    """Check the files of a model without reading weights.

    Raises:
        BadInputError: a file is not regular, far too large or damaged, a shard lies outside the folder, or the
            configuration counts more parts than there are weights for.
    """
    files = [folder / name for name in _JSON if (folder / name).exists()]
    content = {path.name: read_json_object(path, _MOST_JSON, "JSON of transformers") for path in files}
    roots = [folder.absolute().parents[1] / _CACHE[1]] if folder.absolute().parent.name == _CACHE[0] else []
    is_whole = (folder / _WHOLE).exists()  # read then, regardless of the index
    for name in sorted(set(_shards(content[_INDEX]))) if _INDEX in content else ():
        path = path_beside(folder, name, "shard", *roots)
        if not os.path.isfile(path) and not is_whole:
            raise BadInputError(f"{_INDEX}: shard {name:.200} is missing: fetch it, or save the model again")
    headers = [header for path in sorted(folder.glob("*.safetensors")) for header in _headers(path)]
    shapes = [shape for _, _, shape in headers]
    integers = frozenset(key for key, dtype, _ in headers if dtype[:1] in ("I", "U"))
    largest = max((size for shape in shapes for size in shape), default=0)
    stored = Stored(len(shapes), sum(map(prod, shapes)), largest, integers)
    with located(_CONFIG):
        _check_counts(content[_CONFIG], stored)
    return stored


@contextmanager
def bounded(stored: Stored) -> Iterator[None]:
    """Raise while this thread builds a model that is far larger than its weights.

    Raises:
        BadInputError: the message names the number.
    """
    thread, counted = threading.get_ident(), dict.fromkeys(("modules", "weights", "numbers"), 0)
    most = {
        "modules": _MODULES * (stored.tensors + _ALWAYS),
        "weights": _MOST_TIMES * stored.tensors + _ALWAYS,
        "numbers": _MOST_TIMES * stored.numbers + _NUMBERS,
    }

    def count(what: str, number: int) -> None:
        if threading.get_ident() == thread:
            counted[what] += number
            if counted[what] > most[what]:
                raise BadInputError(
                    f"{_CONFIG}: describes a model of more than {most[what]:,} {what}, but its files contain "
                    f"{stored.tensors:,} weights of {stored.numbers:,} numbers: they do not belong together"
                )

    def count_tensor(owner: nn.Module, name: str, tensor: Any) -> None:
        if tensor is not None:
            count("weights", 1)
            count("numbers", tensor.numel())

    with ExitStack() as hooks:
        for register in (register_module_parameter_registration_hook, register_module_buffer_registration_hook):
            hooks.callback(register(count_tensor).remove)
        hooks.callback(register_module_module_registration_hook(lambda *_: count("modules", 1)).remove)
        yield


def _shards(index: dict[str, Any]) -> Iterator[str]:
    names = index.get("weight_map")
    if not names or not isinstance(names, dict):
        raise BadInputError(f"{_INDEX}: weight_map: got {names!r:.80}, expected the shard of each weight")
    for name in names.values():
        if not isinstance(name, str):
            raise BadInputError(f"{_INDEX}: got the shard {name!r:.80}, expected the name of a file")
        yield name


def _headers(path: Path) -> list[tuple[str, str, list[int]]]:
    """Return key, type and shape of each tensor of a file."""
    if kind := kind_in(path):  # such as a Git LFS pointer
        raise BadInputError(f"{path.name}: {kind}")
    try:
        check_regular(path, "weights")
        with opened(str(path)) as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - no mapping
            return [(key, each.get_dtype(), each.get_shape()) for key, each in slices.items()]
    except BadInputError as error:
        raise BadInputError(f"{path.name}: {error}: save the whole model with its save_pretrained") from error


def _check_counts(config: dict[str, Any], stored: Stored) -> None:
    """Raise for counts that are too large, because the library makes lists of that length while reading them."""
    for key, value in _numbers(config):
        repeated, listed = _REPEATED.search(key), _LISTED.search(key)
        if not (repeated or listed):
            continue
        most = _ALWAYS + _MOST_TIMES * (stored.tensors if repeated else max(stored.tensors, stored.largest))
        if value > most:
            raise BadInputError(
                f"{key:.80}: got {value}, expected at most {most} for {stored.tensors} weights with at most "
                f"{stored.largest} rows or columns: the files do not belong together"
            )


def _numbers(content: Any) -> Iterator[tuple[str, float]]:
    """Yield every number in nested objects and lists, with the key above it."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((str(name), item) for name, item in value.items())
        elif isinstance(value, list):
            waiting.extend((key, item) for item in value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value
