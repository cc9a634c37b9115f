"""Results that tests share, each stored under a key of everything that it depends on."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor

from edge_embed.exporters.exported import metadata_of
from edge_embed.exporters.onnx.export import build_model
from edge_embed.exporters.onnx.names import MEMORY_BYTES
from edge_embed.exporters.onnx.tokenizer import characters
from edge_embed.exporters.tflite.converted_body import convert_body
from edge_embed.exporters.tflite.cut_tables import CutProgram
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import ProgramModule, Sizes
from edge_embed.runtime.library import get_library_path
from edge_embed.targets.target import Feeds, RunOptions
from edge_embed.targets.tflite.runtimes import OpenedModel, Outcome
from edge_embed.validation import paths
from edge_embed.validation.expected_export import Written, written_by_export
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.fresh_process import Fresh, measure_fresh
from edge_embed.validation.optimized_session import Optimized, optimize_all

_MOST = 32  # results that are kept
_MOST_BYTES = 1 << 20  # of weights: results of larger models are not kept
_FEW_BYTES = 128  # of a constant, which the optimiser may read

_written: OrderedDict[str, Written] = OrderedDict()
_built: OrderedDict[str, bytes] = OrderedDict()
_measured: OrderedDict[str, Fresh] = OrderedDict()
_optimized: OrderedDict[str, list[Optimized]] = OrderedDict()
_ran: OrderedDict[str, tuple[list[Outcome], Any]] = OrderedDict()
_attempt = OpenedModel.attempt
_converted: OrderedDict[str, bytes] = OrderedDict()
_sorted: OrderedDict[str, tuple[list[str], list[str]]] = OrderedDict()
_sort = characters._Kinds.all
_normalized: OrderedDict[str, list[tuple[str, str]]] = OrderedDict()
_normalize = characters._normalized


def same_program_written_once(lowered: LoweredProgram, found: ModelProto) -> Written:
    """Call `written_by_export` once for all programs of the same graph, weights, inputs and names."""
    memory = [item.i for node in found.graph.node for item in node.attribute if item.name == MEMORY_BYTES]
    key = _key_of(lowered, memory)
    if key is None:
        return written_by_export(lowered, found)
    return _remembered(_written, key, lambda: _apart(written_by_export(lowered, found)))


def remember_built(lowered: LoweredProgram, memory_bytes: int | None = None) -> ir.Model:
    """Call `build_model` and keep its result for `built_before`."""
    model = build_model(lowered, memory_bytes)
    if key := _key_of(lowered, memory_bytes):
        _built.pop(key, None)
        _remembered(_built, key, lambda: ir.to_proto(model).SerializeToString())
    return model


def built_before(lowered: LoweredProgram, memory_bytes: int | None = None) -> ir.Model:
    """Return the kept result of `build_model`, or call it; a test of repeated exports must call `build_model`."""
    key = _key_of(lowered, memory_bytes)
    if key not in _built:
        return build_model(lowered, memory_bytes)
    return ir.from_proto(ModelProto.FromString(_built[key]))


def same_body_converted_once(cut: CutProgram, body: ProgramModule, signatures: Mapping[str, Sizes]) -> bytes:
    """Call `convert_body` once for the same part of the same program."""
    part = str(body.graph), [value.name for value in cut.given], {name: dict(at) for name, at in signatures.items()}
    key = _key_of(cut.lowered, part)
    if key is None:
        return convert_body(cut, body, signatures)
    return _remembered(_converted, key, lambda: convert_body(cut, body, signatures))


def _key_of(lowered: LoweredProgram, more: object) -> str | None:
    """Return a key of graph, weights, inputs and names, or None for a program that is too large."""
    program = lowered.program
    weights = dict(program.module.named_buffers())
    if sum(tensor.nbytes for tensor in weights.values()) > _MOST_BYTES:
        return None
    digest = hashlib.sha256(repr((str(program.module.graph), program.inputs, program.output_names)).encode())
    for name, tensor in (*weights.items(), *enumerate(program.example_inputs)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + _bytes_of(tensor))
    digest.update(repr((sorted(metadata_of(lowered).items()), more)).encode())
    return digest.hexdigest()


def same_session_measured_once(path: Path, library: Path | None, feeds: Feeds) -> Fresh:
    """Call `measure_fresh` once for files of the same bytes and the same inputs."""
    digest = hashlib.sha256(str(library).encode())
    for file in sorted(path.parent.glob(f"{path.name}*")):
        digest.update(file.read_bytes())
    digest.update(_feeds_in_bytes(feeds))
    return _remembered(_measured, digest.hexdigest(), lambda: measure_fresh(path, library, feeds))


def same_structure_optimized_once(exported: ExportedModel) -> list[Optimized]:
    """Call `optimize_all` once for files that differ only in the numbers of their tables and weights."""
    structure, large = ModelProto(), []
    structure.CopyFrom(exported.proto)
    for tensor in structure.graph.initializer:
        if len(tensor.raw_data) > _FEW_BYTES:
            large.append(len(tensor.raw_data))
            tensor.ClearField("raw_data")
    sizes = [(file.name, file.stat().st_size) for file in exported.files[1:]]
    digest = hashlib.sha256(structure.SerializeToString(deterministic=True))
    digest.update(repr((large, sizes, paths.missing_library() or get_library_path())).encode())
    if any(found.problem for found in _optimized.get(digest.hexdigest(), ())):
        return optimize_all(exported)  # its errors name the file
    return _remembered(_optimized, digest.hexdigest(), lambda: optimize_all(exported))


def same_model_run_once(opened: OpenedModel, cases: Sequence[Feeds], options: RunOptions) -> tuple[list[Outcome], Any]:
    """Call `OpenedModel.attempt` once for files of the same bytes and the same inputs, unless it is timed."""
    if options.iterations or not opened.model.is_file():
        return _attempt(opened, cases, options)
    digest = hashlib.sha256(repr((opened.python, opened.environment, opened.delegate, options)).encode())
    digest.update(opened.model.read_bytes())
    for feeds in cases:
        digest.update(_feeds_in_bytes(feeds))
    return _remembered(_ran, digest.hexdigest(), lambda: _attempt(opened, cases, options))


def characters_sorted_once(kinds: Any) -> tuple[list[str], list[str]]:
    """Call `_Kinds.all`, which queries a library for each Unicode character, once for each pre-tokenizer."""
    return _remembered(_sorted, repr((_state_of(kinds._pre_tokenizer), kinds._in_runs)), lambda: _sort(kinds))


def characters_normalized_once(source: Any) -> list[tuple[str, str]]:
    """Call `_normalized` once for each normalizer."""
    return _remembered(_normalized, _state_of(source.library.normalizer), lambda: list(_normalize(source)))


def _state_of(part: Any) -> str:
    """Return a part of a tokenizer as its file describes it."""
    return "" if part is None else repr(part.__getstate__())


def _feeds_in_bytes(feeds: Feeds) -> bytes:
    return b"".join(f"{name} {value.dtype} {value.shape}".encode() + _bytes_of(value) for name, value in feeds.items())


def _remembered(known: OrderedDict[str, Any], key: str, make: Callable[[], Any]) -> Any:
    known[key] = known.pop(key) if key in known else make()
    if len(known) > _MOST:
        known.popitem(last=False)
    return known[key]


def _apart(written: Written) -> Written:
    """Return a result with copies of its weights, which may be mapped from a file of a test."""
    tensors = {
        name: stored._replace(content=memoryview(bytes(stored.content))) for name, stored in written.tensors.items()
    }
    return replace(written, tensors=tensors)


def _bytes_of(value: Tensor | NDArray[Any]) -> bytes:
    """Return the bytes of a tensor of any type, also of types that numpy lacks; texts are arrays of objects."""
    if isinstance(value, Tensor):
        flat = (
            value.detach().flatten().clone(memory_format=torch.contiguous_format)
        )  # also for one number with stride 0
        return flat.view(torch.uint8).numpy().tobytes()
    return repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
