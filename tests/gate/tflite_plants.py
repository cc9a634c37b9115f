"""Faults in TFLite files as data, like those of `plants` for ONNX."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .plants import NUMBERS, Change, Plant, cut


def schema() -> Any:
    return import_module("ai_edge_litert.schema_py_generated")


def edit(change: Callable[[Any], None]) -> Change:
    """Change the objects of the schema."""

    def planted(path: Path) -> None:
        model = schema().ModelT.InitFromPackedBuf(path.read_bytes(), 0)
        change(model)
        builder = import_module("flatbuffers").Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))

    return planted


def tensor_of(model: Any, name: str) -> Any:
    return next(each for each in model.subgraphs[0].tensors if re.search(name, each.name.decode()))


def bit(name: str, byte: int, place: int = 0) -> Change:
    """Flip a bit of a constant."""

    def planted(model: Any) -> None:
        buffer = model.buffers[tensor_of(model, name).buffer]
        content = bytearray(bytes(buffer.data))
        content[byte] ^= 1 << place
        buffer.data = list(content)

    return edit(planted)


def operator(number: int, change: Callable[[Any], None]) -> Change:
    return edit(lambda model: change(model.subgraphs[0].operators[number]))


def exchange_inputs(each: Any) -> None:
    each.inputs = [each.inputs[1], each.inputs[0], *each.inputs[2:]]


def text(key: bytes, change: Callable[[bytes], bytes]) -> Change:
    def planted(model: Any) -> None:
        (entry,) = [each for each in model.metadata if each.name == key]
        before = bytes(model.buffers[entry.buffer].data)
        assert change(before) != before
        model.buffers[entry.buffer].data = list(change(before))

    return edit(planted)


def drop(model: Any) -> None:
    model.metadata = [each for each in model.metadata if each.name != b"edge_embed.delegate"]


def exchange_buffers(model: Any) -> None:
    one, other = tensor_of(model, "values"), tensor_of(model, "codes")
    one.buffer, other.buffer = other.buffer, one.buffer


def dense_bit(model: Any) -> None:
    """Flip the lowest bit of a weight of the linear layer, whose name the converter gives."""
    shapes = {tuple(each.shape): each for each in model.subgraphs[0].tensors if each.buffer and each.shape is not None}
    buffer = model.buffers[next(shapes[size] for size in ((3, 16), (16, 3)) if size in shapes).buffer]
    buffer.data = [int(buffer.data[0]) ^ 1, *buffer.data[1:]]


def rename(model: Any) -> None:
    model.signatureDefs[0].outputs[0].name = b"other"


def one_more(model: Any) -> None:
    graph = model.subgraphs[0]
    graph.operators.append(graph.operators[-1])


def quantise(model: Any) -> None:
    quantization = schema().QuantizationParametersT()
    quantization.scale, quantization.zeroPoint = [0.5], [0]
    tensor_of(model, "values").quantization = quantization


TFLITE = (
    Plant("codes", "a bit", bit("codes", 7), "embedding.codes: byte 7", "words"),
    Plant("values", "the lowest bit", bit("values", 4 * 9), "embedding.values: byte 36", "words"),
    Plant("values", "those of the codes", edit(exchange_buffers), "stored rows", "words"),
    Plant("constant", "the lowest bit", bit("constant_0", 0), f"{NUMBERS}: ", "words"),
    Plant("constant", "of the last", bit("constant_2", 0), f"{NUMBERS}: ", "words"),
    Plant("operator", "inputs exchanged", operator(0, exchange_inputs), "operator 0", "words"),
    Plant("operator", "one more", edit(one_more), "operators", "words"),
    Plant(
        "operator",
        "another version",
        edit(lambda model: setattr(model.operatorCodes[0], "version", 2)),
        "version",
        "words",
    ),
    Plant("tensor", "a scale", edit(quantise), "quantization", "words"),
    Plant(
        "tensor", "another name", edit(lambda model: setattr(tensor_of(model, "codes"), "name", b"x")), "codes", "words"
    ),
    Plant("signature", "another output", edit(rename), "expected output", "words"),
    Plant(
        "manifest",
        "another hash",
        text(b"edge_embed.tables", lambda value: value.replace(b"sha256", b"sha265")),
        "manifest",
        "words",
    ),
    Plant(
        "manifest",
        "of the delegate",
        text(b"edge_embed.delegate", lambda value: value[:-1] + b"9"),
        "manifest of the delegate",
        "words",
    ),
    Plant("manifest", "none of the delegate", edit(drop), "manifest of the delegate", "words"),
    Plant("file", "cut", cut, "damaged or not a TFLite model", "words"),
    Plant("dense weight", "the lowest bit", edit(dense_bit), f"{NUMBERS}: ", "tags"),
)
