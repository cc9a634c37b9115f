"""Fuzz targets: TFLite files; mutants change a field, offsets, JSON in the metadata, or bytes."""

import json
import random
import struct
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import torch
from ai_edge_litert import schema_py_generated as schema
from driver import Reader, change_bytes, change_values
from numpy.typing import NDArray
from torch import nn

import edge_embed
from edge_embed import workflow
from edge_embed.compression.tflite.foreign_file import damaged, read_foreign
from edge_embed.compression.tflite.replace import packed_content
from edge_embed.errors import BadInputError, ParityError
from edge_embed.fitting.fitted_table import Stored
from edge_embed.inspection.inspect import inspect_file
from edge_embed.lowering.graph import lower_program
from edge_embed.program.load import capture_program
from edge_embed.program.program import Program
from edge_embed.validation.tables import Table
from edge_embed.validation.tflite.sizes import split
from edge_embed.validation.tflite.stored_tables import read_stored

sys.path.append(str(Path(__file__).parents[1] / "exporters" / "tflite"))

from tool_files import FORMS, ToolFile

_NUMBERS = (0, 1, -1, 2, 4, 7, 127, 255, 2**15, 2**31 - 1, -(2**31))
_TEXTS = (b"", b"x", b"\xff", b"words.codes", b"edge_embed.manifest", b"x" * 300)
_METADATA = b"edge_embed."


class Model(nn.Module):
    """A model with a lookup by each method, and one with a row order."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(20, 8, num_codes=4, num_groups=2, variant="vq", padding_idx=0)
        self.tags = edge_embed.ANTEmbedding(20, 8, num_anchors=3)
        self.items = edge_embed.TTEmbedding(20, 8, rank=2)
        self.sorted = edge_embed.TTEmbedding(20, 8, rank=2, row_order=torch.arange(19, -1, -1))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.words(ids), self.tags(ids), self.items(ids), self.sorted(ids)


def inspected() -> Reader:
    """Return the reader of `inspect --verify`."""
    _, sound = _exported()
    read = partial(inspect_file, verify=True)
    return Reader(
        "model.tflite", read, (BadInputError, ParityError), partial(mutant, sound=sound), sound, passes=is_flatbuffer
    )


def validated() -> Reader:
    """Return the reader of `validate`, without the runtime."""
    program, sound = _exported()
    lowered = lower_program(program)
    tables = [Table(name, packed) for name, packed in lowered.tables.items()]

    def read(path: Path) -> None:
        stored = read_stored(path, lowered)
        for table in tables:
            stored.checks(table.name)
        split(stored.model, tables, path.stat().st_size)

    return Reader("model.tflite", read, (BadInputError,), partial(mutant, sound=sound), sound, passes=is_flatbuffer)


def compressed() -> Reader:
    """Return the reader of `compress` for files of other tools, with the replacement of their tables."""
    sound = _of_tools()

    def read(path: Path) -> None:
        file = read_foreign(path)
        with damaged(path):
            packed = {name: _any_packed(table.rows) for name, table in file.tables.items() if not table.readers}
        packed_content(file, packed, "auto")

    return Reader("model.tflite", read, (BadInputError,), partial(mutant, sound=sound), sound, passes=is_flatbuffer)


def _any_packed(rows: NDArray[np.float32]) -> Stored:
    """Return a packed table of the same size with one code for all rows."""
    if not rows.size or not np.isfinite(rows).all():
        raise BadInputError("no finite rows, which compress refuses")
    codes = np.zeros((len(rows), 1), np.uint16)
    return Stored(edge_embed.PackedDPQ.from_codes(codes, np.ones((1, 2, rows.shape[1]), np.float32)))


def _of_tools() -> bytes:
    """Return a file with every known form of a lookup."""
    file = ToolFile()
    ids = file.tensor("ids", "int32", [1, 4])
    made = [make(file, ids) for make in FORMS.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = file.write(Path(folder) / "model.tflite", [ids], made)
        return path.read_bytes()


def _exported() -> tuple[Program, bytes]:
    torch.manual_seed(0)
    texts = {"vocabulary": [f"w{at}" for at in range(20)], "metadata": {"task": "test"}}
    program = capture_program(Model(), torch.tensor([[1, 2]]), **texts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        workflow.export(program, "tflite", path)
        return program, path.read_bytes()


def mutant(random_: random.Random, sound: bytes) -> bytes:
    """Return a mutant; the same generator state gives the same bytes."""
    kind = random_.randrange(8)
    if kind < 2:
        return change_bytes(random_, sound)
    return change_words(random_, sound) if kind < 4 else _change_model(random_, sound)


def is_flatbuffer(data: bytes) -> bool:
    """Return whether every offset of a model is valid in the schema."""
    try:
        return data[4:8] == b"TFL3" and bool(schema.ModelT.InitFromPackedBuf(data))
    except Exception:
        return False


def change_words(random_: random.Random, data: bytes) -> bytes:
    """Change numbers of four bytes: offsets, lengths, fields."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 4))):
        at = 4 * random_.randrange(len(changed) // 4)
        (value,) = struct.unpack_from("<I", changed, at)
        other = 4 * random_.randrange(len(changed) // 4)
        near = value + random_.choice((-8, -4, -2, -1, 1, 2, 4, 8))
        value = random_.choice((near, value << 8, other, (other - at), random_.choice(_NUMBERS)))
        struct.pack_into("<I", changed, at, value % 2**32)
    return bytes(changed)


def _change_model(random_: random.Random, data: bytes) -> bytes:
    """Change one field of the model and pack it again, so that all offsets are right."""
    model = schema.ModelT.InitFromPackedBuf(data)
    if model.metadata and random_.random() < 0.4:
        _change_metadata(random_, model)
    else:
        for _ in range(random_.choice((1, 1, 2, 4))):
            _change_field(random_, model)
    builder = flatbuffers.Builder(len(data))
    try:
        builder.Finish(model.Pack(builder), b"TFL3")
    except (TypeError, ValueError, struct.error, AttributeError, IndexError):  # the field does not accept the value
        return change_bytes(random_, data)
    return bytes(builder.Output())


def _change_metadata(random_: random.Random, model: Any) -> None:
    """Change an entry of the metadata, which is JSON or lines."""
    entry = random_.choice([entry for entry in model.metadata if entry.name.startswith(_METADATA)])
    buffer = model.buffers[entry.buffer]
    buffer.data = list(_change_text(random_, bytes(buffer.data)))


def _change_text(random_: random.Random, text: bytes) -> bytes:
    try:
        content = [json.loads(text)]
    except ValueError:
        return change_bytes(random_, text)
    if random_.random() < 0.1:
        return random_.choice((b"[" * 5000, b"9" * 5000, b"{}", b"[]", b"null", b'"x"', text + text))
    change_values(random_, content)
    return json.dumps(content[0] if content else None).encode("utf-8", "replace")


def _change_field(random_: random.Random, owner: Any) -> None:
    """Change one field of an object or of its members, chosen by a random walk."""
    fields = [(name, value) for name, value in vars(owner).items() if value is not None]
    if not fields:
        return
    name, value = random_.choice(fields)
    if isinstance(value, bytes | str):
        setattr(owner, name, random_.choice(_TEXTS))
    elif isinstance(value, int):
        setattr(owner, name, random_.choice((*_NUMBERS, value + 1)))
    elif hasattr(value, "__len__"):
        values = list(value)
        _change_list(random_, values)
        setattr(owner, name, values)
    elif hasattr(value, "__dict__"):
        _change_field(random_, value)


def _change_list(random_: random.Random, values: list[Any]) -> None:
    if not values:
        return
    at, action = random_.randrange(len(values)), random_.randrange(10)
    if action == 0:
        del values[at]
    elif action == 1:
        values.insert(at, random_.choice(values))
    elif action == 2:
        values[at] = random_.choice(values)
    elif hasattr(values[at], "__dict__"):
        _change_field(random_, values[at])
    else:
        values[at] = random_.choice(_NUMBERS)
