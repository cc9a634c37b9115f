"""Comparison of a compressed TFLite file with a new compression of its original: equal bytes, or differences."""

import filecmp
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edge_embed.compression.tflite.foreign_file import damaged
from edge_embed.compression.tflite.subgraph_calls import operator_name
from edge_embed.exporters.onnx.names import FIDELITY_KEY
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.report.results.validation import Check
from edge_embed.validation.tflite.plain_values import plain

_NAME = "file as compress writes it"
_MOST_NAMED = 4


def compare_files(got: Path, expected: Path) -> tuple[Check, ...]:
    """Compare two files; `expected` is the output of `compress`, made again."""
    if filecmp.cmp(got, expected, shallow=False):
        return (
            Check(_NAME, "passed", f"all {got.stat().st_size:,} bytes: operators, constants, signatures, metadata"),
        )
    models = []
    for path in (got, expected):
        with damaged(path):
            models.append(load_schema().ModelT.InitFromPackedBuf(path.read_bytes(), 0))
    with damaged(got):
        found = list(_differences(*models))
    if not found:
        detail = (
            "operators, constants, signatures and metadata are equal, but their layout or an appended archive differs"
        )
        return (Check(_NAME, "failed", f"{detail}: compress the original again"),)
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return (Check(_NAME, "failed", f"{'; '.join(found[:_MOST_NAMED])}{more}: compress the original again"),)


def _differences(got: Any, expected: Any) -> Iterator[str]:
    if len(got.subgraphs) != len(expected.subgraphs):
        yield f"got {len(got.subgraphs)} subgraphs, expected {len(expected.subgraphs)}"
    for graph, other in zip(got.subgraphs, expected.subgraphs, strict=False):
        yield from _tensors((got, graph), (expected, other))
        yield from _operators((got, graph), (expected, other))
        for what in ("inputs", "outputs"):
            if plain(getattr(graph, what)) != plain(getattr(other, what)):
                yield f"the {what} differ"
    texts, wanted = (_texts(model) for model in (got, expected))
    for key in dict.fromkeys((*wanted, *texts)):
        if texts.get(key) != wanted.get(key) and key != FIDELITY_KEY:
            yield f"metadata {key} differ"
    for what in ("signatureDefs", "description", "version"):
        if plain(getattr(got, what)) != plain(getattr(expected, what)):
            yield f"{what} differ"


def _tensors(got: tuple[Any, Any], expected: tuple[Any, Any]) -> Iterator[str]:
    (model, graph), (wanted_model, wanted) = got, expected
    if len(graph.tensors) != len(wanted.tensors):
        yield f"got {len(graph.tensors)} tensors, expected {len(wanted.tensors)}"
    for tensor, other in zip(graph.tensors, wanted.tensors, strict=False):
        name = (other.name or b"").decode()
        sides = [{key: value for key, value in plain(each).items() if key != "buffer"} for each in (tensor, other)]
        if sides[0] != sides[1]:
            key = next(key for key in sides[1] if sides[0].get(key) != sides[1][key])
            yield f"tensor {name}: {key} differs"
        contents = [_content(one, each.buffer) for one, each in ((model, tensor), (wanted_model, other))]
        if contents[0] != contents[1]:
            same = len(contents[0]) == len(contents[1])
            at = (
                int(np.flatnonzero(np.frombuffer(contents[0], np.uint8) != np.frombuffer(contents[1], np.uint8))[0])
                if same
                else 0
            )
            yield f"constant {name}: byte {at:,} differs" if same else f"constant {name}: its size differs"


def _operators(got: tuple[Any, Any], expected: tuple[Any, Any]) -> Iterator[str]:
    (model, graph), (wanted_model, wanted) = got, expected
    if len(graph.operators) != len(wanted.operators):
        yield f"got {len(graph.operators)} operators, expected {len(wanted.operators)}"
    for at, (operator, other) in enumerate(zip(graph.operators, wanted.operators, strict=False)):
        names = [operator_name(one, each) for one, each in ((model, operator), (wanted_model, other))]
        if names[0] != names[1]:
            yield f"operator {at}: got {names[0]}, expected {names[1]}"
            continue
        sides = [
            {key: value for key, value in plain(each).items() if key != "opcodeIndex"} for each in (operator, other)
        ]
        if sides[0] != sides[1]:
            key = next(key for key in sides[1] if sides[0].get(key) != sides[1][key])
            yield f"operator {at}, {names[1]}: {key} differs"


def _texts(model: Any) -> dict[str, bytes]:
    return {(entry.name or b"").decode(): _content(model, entry.buffer) for entry in model.metadata or ()}


def _content(model: Any, buffer: int) -> bytes:
    data = model.buffers[buffer].data
    return b"" if data is None else bytes(np.asarray(data, np.uint8))
