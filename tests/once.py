"""Results that tests may share, each by a key of everything that it depends on."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor

from edge_embed.exporters.exported import metadata_of
from edge_embed.exporters.onnx.names import MEMORY_BYTES
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.validation.fresh import Fresh, measure_fresh
from edge_embed.validation.written import Written, written_by_export

_MOST = 32  # results that are kept
_MOST_BYTES = 1 << 20  # of weights: what a larger model writes is not kept

_written: OrderedDict[str, Written] = OrderedDict()
_measured: OrderedDict[str, Fresh] = OrderedDict()


def same_program_written_once(lowered: LoweredProgram, found: ModelProto) -> Written:
    """`written_by_export`, once for programs of the same graph, weights, inputs and names."""
    program = lowered.program
    weights = dict(program.module.named_buffers())
    if sum(tensor.nbytes for tensor in weights.values()) > _MOST_BYTES:
        return written_by_export(lowered, found)
    digest = hashlib.sha256(repr((str(program.module.graph), program.inputs, program.output_names)).encode())
    for name, tensor in (*weights.items(), *enumerate(program.example_inputs)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + _bytes_of(tensor))
    memory = [item.i for node in found.graph.node for item in node.attribute if item.name == MEMORY_BYTES]
    digest.update(repr((sorted(metadata_of(lowered).items()), memory)).encode())
    return _remembered(_written, digest.hexdigest(), lambda: _apart(written_by_export(lowered, found)))


def same_session_measured_once(path: Path, library: Path, feeds: Mapping[str, NDArray[Any]]) -> Fresh:
    """`measure_fresh`, once for files of the same bytes and the same inputs."""
    digest = hashlib.sha256(str(library).encode())
    for file in sorted(path.parent.glob(f"{path.name}*")):
        digest.update(file.read_bytes())
    for name, value in feeds.items():
        digest.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
    return _remembered(_measured, digest.hexdigest(), lambda: measure_fresh(path, library, feeds))


def _remembered(known: OrderedDict[str, Any], key: str, make: Callable[[], Any]) -> Any:
    known[key] = known.pop(key) if key in known else make()
    if len(known) > _MOST:
        known.popitem(last=False)
    return known[key]


def _apart(written: Written) -> Written:
    """With copies of the weights, which may be mapped from a file of a test."""
    tensors = {
        name: stored._replace(content=memoryview(bytes(stored.content))) for name, stored in written.tensors.items()
    }
    return replace(written, tensors=tensors)


def _bytes_of(value: Tensor | NDArray[Any]) -> bytes:
    """Of a tensor of any type, also of one that numpy lacks; texts are arrays."""
    if isinstance(value, Tensor):
        return value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return repr(value.tolist()).encode()
