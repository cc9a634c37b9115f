"""Texts that a file is tried with: those that it knows itself, and others."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from edge_embed.compression.onnx.scopes import graphs_of
from edge_embed.exporters.onnx.model_file import tensors_of
from edge_embed.exporters.tflite.flatbuffer import load_schema

_OTHERS = ("", " ", "unknown", "two words", "Größe", "東京 🙂", "0")
_MOST = 10_000  # known texts, of all parts of a vocabulary
_SHARE_OF_OTHERS = 0.25


@dataclass(frozen=True)
class Texts:
    """What inputs of texts are drawn from.

    Attributes:
        known: what the file compares its inputs with, or has in its tables.
        others: unlike most of these.
    """

    known: Sequence[str] = ()
    others: Sequence[str] = _OTHERS

    def choices(self) -> tuple["Texts", ...]:
        """What to draw from: a file may refuse all texts but those that it knows."""
        return (self, replace(self, others=())) if self.known and self.others else (self,)

    def draw(self, random: np.random.Generator, shape: Sequence[int]) -> NDArray[Any]:
        """Texts of a shape."""
        is_other = random.random(shape) < (_SHARE_OF_OTHERS if self.known else 1.0)
        if not self.others:
            is_other = np.zeros_like(is_other)
        drawn = np.empty(shape, dtype=object)
        for at, other in np.ndenumerate(is_other):
            pool = self.others if other else self.known
            drawn[at] = pool[int(random.integers(len(pool)))]
        return drawn


def texts_of_onnx(model: ModelProto) -> Texts:
    """Keys of encoders, stop words, pools of n-grams, constants: those in bodies and functions too."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    in_tensors = (text for tensor in tensors_of(model) for text in tensor.string_data)
    return _known(chain(_in_attributes(nodes), in_tensors))


def _in_attributes(nodes: Iterable[NodeProto]) -> Iterator[bytes]:
    for node in nodes:
        for item in node.attribute:
            yield from item.strings
        for graph in graphs_of(node):
            yield from _in_attributes(graph.node)


def texts_of_tflite(model: Any) -> Texts:
    """Keys of hash tables, labels and other constants, of a model as the classes of the schema."""
    string = load_schema().TensorType.STRING
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.type == string]
    contents = (model.buffers[number].data for number in dict.fromkeys(tensor.buffer for tensor in tensors))
    return _known(chain.from_iterable(_unpacked(bytes(content)) for content in contents if content is not None))


def _unpacked(content: bytes) -> list[bytes]:
    """The texts of a tensor: how many there are, where each begins and the last ends, the texts; none if damaged.

    Texts that lie on top of each other, which small files could hold a great many of, are damage.
    """
    try:
        (count,) = struct.unpack_from("<i", content)
        places = struct.unpack_from(f"<{count + 1}i", content, 4) if count > 0 else ()
    except struct.error:
        return []
    is_sound = all(0 <= begin <= end for begin, end in pairwise(places))
    return [content[begin:end] for begin, end in pairwise(places)] if is_sound else []


def _known(texts: Iterable[bytes]) -> Texts:
    """Of what is in a file, in its order: all that are UTF-8 without zero bytes, which end a text in some runtimes."""
    found: dict[str, None] = {}
    for text in texts:
        with suppress(UnicodeDecodeError):
            if b"\0" not in text:
                found[text.decode()] = None
    known = list(found)
    # A text in capitals and two in a row: what normalizers and splitters are for.
    more = [" ".join(known[:2]), *(text.upper() for text in known[:1])]
    return Texts(known[:: -(-len(known) // _MOST) or 1], tuple(dict.fromkeys((*_OTHERS, *more))))
