"""Fuzz targets for all readers of files: for any content, a reader may only accept or raise its refusals.

    python tests/fuzz/fuzz_files.py all --count 10000          # every reader; RESULTS.md has the result
    python tests/fuzz/fuzz_files.py packed onnx --count 1e6    # two of them
    python tests/fuzz/fuzz_files.py packed --replay finding.safetensors

TMPDIR=/dev/shm avoids the disk and most of the time. `driver.py` documents the other options and defines a finding.
Most mutants change the content of a container and correct its lengths and checksums (`containers.py`); the rest change
bytes. At least half of the mutants must pass the checks of the container.
"""

import argparse
import io
import json
import random
import struct
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import containers
import fuzz_read_program
import importer_files
import numpy as np
import onnx
import onnx_files
import onnx_tool_files
import onnxruntime
import tflite_files
import torch
import torch_files
from driver import Reader, add_options, change_bytes, change_values, run
from google.protobuf.message import Message
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

import edge_embed
from edge_embed import workflow
from edge_embed.array_file import read_array
from edge_embed.errors import BadInputError, ParityError
from edge_embed.gate.baseline import read_baseline
from edge_embed.gate.budget import read_budget
from edge_embed.inspection.inspect import inspect_file
from edge_embed.packed.file import load_tables, save_tables
from edge_embed.program.program import Program
from edge_embed.report.results.check import KIND, SCHEMA_VERSION
from edge_embed.runtime.library import get_library_path
from edge_embed.targets.tensors import read_tensors, write_tensors
from edge_embed.validation.saved_inputs import load_inputs


class Model(tflite_files.Model):
    """The same tables, one of them also as an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = edge_embed.TiedOutput(self.items)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        words, tags, items, by_order = super().forward(ids)
        return self.head(words + tags + items + by_order)


def _program() -> Program:
    torch.manual_seed(0)
    return workflow.load(Model(), torch.tensor([[1, 2]]))


def packed() -> Reader:
    """Return the reader of packed tables: a JSON header, then the tensors."""
    tables = workflow.lower(Model(), torch.tensor([[1, 2]])).tables
    sound = _written("tables.safetensors", lambda path: save_tables(path, tables))

    def mutant(random_: random.Random) -> bytes:
        kind = random_.random()
        if kind < 0.2:
            return change_bytes(random_, sound)
        if kind < 0.6:  # other tensors, mostly with new hashes
            changed = containers.change_safetensors(random_, sound)
            return containers.hashed_again(changed) if random_.random() < 0.8 else changed
        (length,) = struct.unpack_from("<Q", sound)
        header = json.loads(sound[8 : 8 + length])
        if random_.random() < 0.5:
            change_values(random_, header)
        else:  # the manifest is JSON inside the JSON
            _change_inside(random_, header["__metadata__"])
        text = json.dumps(header).encode("utf-8", "replace")
        changed = struct.pack("<Q", len(text)) + text + sound[8 + length :]
        return containers.hashed_again(changed) if random_.random() < 0.7 else changed

    return Reader("tables.safetensors", load_tables, (BadInputError,), mutant, sound, passes=containers.is_safetensors)


def _change_inside(random_: random.Random, metadata: dict[str, str]) -> None:
    name = random_.choice(list(metadata))
    try:
        content = json.loads(metadata[name])
    except ValueError:
        content = [metadata[name]]
    change_values(random_, content)
    metadata[name] = json.dumps(content)


def onnx_file() -> Reader:
    """Return the reader of exported ONNX files for `inspect --verify`."""
    program = _program()
    sound = _written("model.onnx", lambda path: workflow.export(program, "onnx", path))
    read, refusals = partial(inspect_file, verify=True), (BadInputError, ParityError)
    return Reader("model.onnx", read, refusals, _onnx_mutant(sound), sound, passes=onnx_files.is_protobuf)


def _onnx_mutant(sound: bytes) -> Callable[[random.Random], bytes]:
    """Return a function that changes bytes of an ONNX file, or fields of its messages."""
    model = onnx.load_from_string(sound)

    def mutant(random_: random.Random) -> bytes:
        if random_.random() < 0.3:
            return change_bytes(random_, sound)
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for _ in range(random_.choice((1, 1, 2, 4))):
            _change_message(random_, changed)
        return changed.SerializeToString()

    return mutant


def _change_message(random_: random.Random, message: Message) -> None:
    """Change one field of a protobuf message or of its submessages, chosen by a random walk."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = random_.choice(fields)
    repeated = hasattr(value, "__len__") and not isinstance(value, str | bytes)
    if field.type == field.TYPE_ENUM:
        setattr(message, field.name, random_.choice(field.enum_type.values).number)
    elif repeated and random_.random() < 0.2:
        _change_repeated(random_, value)
    elif field.type == field.TYPE_MESSAGE:
        _change_message(random_, random_.choice(value) if repeated else value)
    elif repeated:
        value[random_.randrange(len(value))] = _other(random_, value[0])
    else:
        setattr(message, field.name, _other(random_, value))


def _change_repeated(random_: random.Random, values: Any) -> None:
    at = random_.randrange(len(values))
    if random_.random() < 0.5:
        del values[at]
    elif hasattr(values, "add"):
        values.add().CopyFrom(values[at])
    else:
        values.append(values[at])


def _other(random_: random.Random, value: Any) -> Any:
    if isinstance(value, str):
        return random_.choice(("", "x", "../x", "edge_embed", "ai.onnx", "words.codes", "x" * 300, value + "0"))
    if isinstance(value, bytes):
        return change_bytes(random_, value)
    if isinstance(value, float):
        return random_.choice((0.0, -1.0, float("nan"), float("inf")))
    if random_.random() < 0.7 or value == 2**31 - 1:  # the largest value of every field type
        return random_.choice((0, 1, -1, 2, 7, 16, 2**31 - 1, -(2**31)))
    return int(value) + 1


def inputs() -> Reader:
    """Return the reader of saved inputs of a validation: arrays in an archive."""
    program = _program()
    file = io.BytesIO()
    np.savez(file, names=np.array(["one", "two"]), seed=np.array(0), **{"0/ids": [[1, 2]], "1/ids": [[3]]})
    sound = file.getvalue()

    def mutant(random_: random.Random) -> bytes:
        if random_.random() < 0.2:
            return change_bytes(random_, sound)
        return containers.change_zip(random_, sound, containers.change_member)

    read = partial(load_inputs, program=program)
    return Reader("inputs.npz", read, (BadInputError,), mutant, sound, passes=containers.is_zip)


def counts() -> Reader:
    """Return the reader of counts of rows: one array."""
    sound = containers.saved_array(np.arange(400.0))

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.2 else containers.change_npy)(random_, sound)

    return Reader("counts.npy", read_array, (BadInputError,), mutant, sound, passes=containers.is_npy)


def tensors() -> Reader:
    """Return the reader of outputs of a target: names, types and shapes, each with a length."""
    arrays = {"logits": np.ones((2, 3), np.float32), "text": np.array(["a", "bc"], object), "ids": np.array([1])}
    sound = _written("0.out", lambda path: write_tensors(path, arrays))
    header = dict.fromkeys(range(12, len(sound) - 8, 4), "<i")

    def mutant(random_: random.Random) -> bytes:
        if random_.random() < 0.3:
            return change_bytes(random_, sound)
        return containers.change_numbers(random_, sound, header)

    def passes(data: bytes) -> bool:
        return data[:12] == sound[:12] and len(data) == len(sound)

    return Reader("0.out", read_tensors, (ValueError,), mutant, sound, passes=passes)


_BUDGET = b"""
model = "model.pt"
baseline = "baseline.json"
[size]
on_disk = "460 KiB"
growth = "1 %"
tables.words = 1000
parts.graph = "20 KiB"
[parity]
atol = 1e-5
max = 1e-4
[parity.outputs.logits]
quantile = 1e-6
[latency]
iterations = 50
threshold = "10 %"
at_most."portable body" = 1.0
[targets]
require = ["local", "arm64:cortex-a53"]
instructions = "1 %"
[metric]
function = "mytask.metrics:accuracy"
drop = 0.01
"""


def budget() -> Reader:
    """Return the reader of budgets of `check`. A mutant gives a key the value of another, with a wrong type or unit."""
    lines = _BUDGET.strip().split(b"\n")

    def mutant(random_: random.Random) -> bytes:
        if random_.random() < 0.3:
            return change_bytes(random_, _BUDGET)
        changed = list(lines)
        at, other = random_.randrange(len(lines)), random_.choice(lines)
        changed[at] = lines[at].partition(b"=")[0] + b"=" + (other.partition(b"=")[2] or b" 1e400")
        return b"\n".join(changed)

    return Reader("edge-embed.toml", read_budget, (BadInputError,), mutant, _BUDGET, passes=_is_toml)


def _is_toml(data: bytes) -> bool:
    try:
        tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def report() -> Reader:
    """Return the reader of baselines, which are earlier reports."""
    content = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "environment": {"zlib": "1.2.13"},
        "metric": {"function": "m:f", "exported": 0.5, "model": 0.6, "base": None},
        "validation": {
            "sizes": {"on_disk": 9, "zipped": 8, "parts": [{"table": "words", "name": "codes", "bytes": 9}]},
            "targets": [{"name": "arm64:max", "counters": {"instructions": 1000}}],
        },
    }
    sound = json.dumps(content).encode()

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.3 else containers.change_json)(random_, sound)

    return Reader("baseline.json", read_baseline, (BadInputError,), mutant, sound, passes=containers.is_json)


def ort_file() -> Reader:
    """Return the reader of optimised models in the format of ONNX Runtime."""
    program = _program()

    def write(path: Path) -> None:
        workflow.export(program, "onnx", path.with_suffix(".onnx"))
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(get_library_path()))
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry("session.save_model_format", "ORT")
        onnxruntime.InferenceSession(path.with_suffix(".onnx"), options, providers=["CPUExecutionProvider"])

    sound = _written("model.ort", write)

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.3 else tflite_files.change_words)(random_, sound)

    read, refusals = partial(inspect_file, verify=True), (BadInputError, ParityError)
    return Reader("model.ort", read, refusals, mutant, sound, passes=_is_ort)


def _is_ort(data: bytes) -> bool:
    """Return whether the offsets of the graph and of every initializer in a flatbuffer are valid."""
    try:
        graph = InferenceSession.GetRootAs(data, 0).Model().Graph()
        return data[4:8] == b"ORTM" and all(graph.Initializers(at).Name() for at in range(graph.InitializersLength()))
    except Exception:
        return False


def _written(name: str, write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


READERS = {
    "packed": packed,
    "onnx": onnx_file,
    "onnx-compress": partial(onnx_files.compressed, _onnx_mutant),
    "onnx-tools": partial(onnx_tool_files.compressed, _onnx_mutant),
    "ort": ort_file,
    "inputs": inputs,
    "tensors": tensors,
    "budget": budget,
    "report": report,
    "tflite": tflite_files.inspected,
    "tflite-validate": tflite_files.validated,
    "tflite-compress": tflite_files.compressed,
    "counts": counts,
    "program": fuzz_read_program.reader,
    **importer_files.READERS,
    **torch_files.READERS,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="+", choices=[*READERS, "all"])
    add_options(parser)
    arguments, rest = parser.parse_known_args()
    failed = 0
    for name in READERS if "all" in arguments.readers else arguments.readers:
        print(name, end=": ", flush=True)
        failed |= run(READERS[name](), arguments, rest)
    return failed


if __name__ == "__main__":
    sys.exit(main())
