"""Fuzz targets: files of torch and transformers, which are archives with pickles and folders with a configuration."""

import functools
import io
import json
import pickle
import random
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attacks
import containers
import numpy as np
import torch
from driver import Reader, change_bytes
from fuzz_read_program import mutant as mutant_of_program
from fuzz_read_program import seeds
from numpy.typing import NDArray
from torch import nn

from edge_embed.errors import BadInputError, EdgeEmbedError, ParityError
from edge_embed.fitting.checkpoints import read_part, write_part
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module
from edge_embed.program.state_dict import load_into


def _module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(OrderedDict(words=nn.Embedding(20, 4), head=nn.Linear(4, 3), act=nn.ReLU()))


def _saved(content: object, **options: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def _changed(random_: random.Random, sound: bytes) -> bytes:
    if random_.random() < 0.2:
        return change_bytes(random_, sound)
    return containers.change_zip(random_, sound, containers.change_member)


def module() -> Reader:
    """Return the reader of a saved module, without its capture."""
    sound = _saved(_module())

    def read(path: Path) -> nn.Module:
        return load_module(Archive(path))

    mutant = partial(_changed, sound=sound)
    return Reader("model.pt", read, (BadInputError,), mutant, sound, attacks.IMPORTED, containers.is_zip)


def state_dict() -> Reader:
    """Return the reader of weights for a module of the user."""
    sound = _saved({"state_dict": _module().state_dict(), "epoch": 3})
    read = partial(load_into, _module)
    mutant = partial(_changed, sound=sound)
    return Reader("weights.pt", read, (BadInputError,), mutant, sound, attacks.IMPORTED, containers.is_zip)


def inspected_module() -> Reader:
    """Return the reader of a saved module for `inspect --verify`."""
    sound = _saved(_module())
    read = partial(inspect_file, verify=True)
    mutant = partial(_changed, sound=sound)
    return Reader("model.pt", read, (BadInputError,), mutant, sound, attacks.IMPORTED, containers.is_zip)


def inspected_program() -> Reader:
    """Return the reader of a saved program for `inspect --verify`."""
    sound = attacks.pack(attacks.clean())
    read = partial(inspect_file, verify=True)
    mutant = partial(mutant_of_program, pool=seeds())
    refusals = (BadInputError, ParityError)
    return Reader("model.pt", read, refusals, mutant, sound, attacks.IMPORTED, containers.is_zip)


def old_format() -> Reader:
    """Return the reader of files from before torch 1.6, a sequence of pickles; their container is the first pickle."""
    sound = _saved(_module().state_dict(), _use_new_zipfile_serialization=False)

    def mutant(random_: random.Random) -> bytes:
        if random_.random() < 0.2:
            return change_bytes(random_, sound)
        first = sound.index(b".") + 1
        return sound[:first] + containers.change_pickle(random_, sound[first:])

    def passes(data: bytes) -> bool:
        try:
            return pickle.loads(data[:64]) == pickle.loads(sound)  # the magic number
        except Exception:
            return False

    return Reader("old.pt", partial(inspect_file, verify=True), (BadInputError,), mutant, sound, passes=passes)


def checkpoint() -> Reader:
    """Return the reader of a part of a computation that `compress --checkpoint` keeps, with its digest."""
    sound = _part({"cores": np.arange(12.0).reshape(3, 4), "order": np.arange(5)})

    def mutant(random_: random.Random) -> bytes:
        kind = random_.random()
        if kind < 0.3:  # a part of another computation
            size = random_.choice(((), (0,), (3,), (2, 3), (1, 0, 4)))
            return _part({random_.choice("abc"): np.ones(size, random_.choice(("f4", "f8", "i8", "u1", "?")))})
        change = change_bytes if kind < 0.5 else containers.change_safetensors
        return change(random_, sound)

    return Reader("part.safetensors", read_part, (BadInputError,), mutant, sound, passes=containers.is_safetensors)


def _part(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.safetensors"
        write_part(path, dict(arrays))
        return path.read_bytes()


@functools.cache
def _folder() -> dict[str, bytes]:
    import transformers

    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=16,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        transformers.BertModel(config).save_pretrained(name, max_shard_size="2KB")
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def transformers_folder(name: str) -> Reader:
    """Return the reader of the configuration or of the index of shards, without the capture of the model."""
    from edge_embed.importers.transformers_folder import load_model

    files = _folder()
    values = (2**40, 10**30, -1, 0, 2**31, "../x", "/etc/passwd", "a/b", None, [2**40], {"x": 2**40}, 1e308)

    def mutant(random_: random.Random) -> bytes:
        kind = random_.random()
        if kind < 0.2:
            return change_bytes(random_, files[name])
        if kind < 0.6:
            return containers.change_json(random_, files[name])
        content = json.loads(files[name])
        owner = content.get("weight_map", content)
        owner[random_.choice([*owner, "num_labels", "layer_types", "n_layer"])] = random_.choice(values)
        return json.dumps(content).encode()

    def read(path: Path) -> object:
        return load_model(path.parent)

    beside = {other: content for other, content in files.items() if other != name}
    return Reader(name, read, (EdgeEmbedError,), mutant, files[name], passes=containers.is_json, beside=beside)


READERS: dict[str, Callable[[], Reader]] = {
    "module": module,
    "state-dict": state_dict,
    "inspect-module": inspected_module,
    "inspect-program": inspected_program,
    "inspect-old": old_format,
    "checkpoint": checkpoint,
    "transformers-config": partial(transformers_folder, "config.json"),
    "transformers-index": partial(transformers_folder, "model.safetensors.index.json"),
}
