"""Texts that a file is tried with: those in the file, and others."""

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
    """The texts that inputs are drawn from.

    Attributes:
        known: texts that the file compares its inputs with, or has in its tables.
        others: texts that differ from most of these.
    """

    known: Sequence[str] = ()
    others: Sequence[str] = _OTHERS

    def choices(self) -> tuple["Texts", ...]:
        """Return the sets of texts to try: a file may refuse all texts except known ones."""
        return (self, replace(self, others=())) if self.known and self.others else (self,)

    def draw(self, random: np.random.Generator, shape: Sequence[int]) -> NDArray[Any]:
        """Draw texts of a shape."""
        is_other = random.random(shape) < (_SHARE_OF_OTHERS if self.known else 1.0)
        if not self.others:
            is_other = np.zeros_like(is_other)
        drawn = np.empty(shape, dtype=object)
        for at, other in np.ndenumerate(is_other):
            pool = self.others if other else self.known
            drawn[at] = pool[int(random.integers(len(pool)))]
        return drawn


def texts_of_onnx(model: ModelProto) -> Texts:
    """Return the texts of a model: keys of encoders, stop words, n-grams, constants, those in functions as well."""
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
    """Return keys of hash tables, labels and other constants of a model, given as classes of the schema."""
    string = load_schema().TensorType.STRING
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors if tensor.type == string]
    contents = (model.buffers[number].data for number in dict.fromkeys(tensor.buffer for tensor in tensors))
    return _known(chain.from_iterable(_unpacked(bytes(content)) for content in contents if content is not None))


def _unpacked(content: bytes) -> list[bytes]:
    """Return the texts of a tensor, which stores their count, their offsets with the end of the last, and the texts.

    A damaged tensor returns none. Overlapping texts count as damage: a small file could hold very many of them.
    """
    try:
        (count,) = struct.unpack_from("<i", content)
        places = struct.unpack_from(f"<{count + 1}i", content, 4) if count > 0 else ()
    except struct.error:
        return []
    is_sound = all(0 <= begin <= end for begin, end in pairwise(places))
    return [content[begin:end] for begin, end in pairwise(places)] if is_sound else []


def _known(texts: Iterable[bytes]) -> Texts:
    """Return the texts of a file, in its order, that are UTF-8 without zero bytes, which end texts in some runtimes."""
    found: dict[str, None] = {}
    for text in texts:
        with suppress(UnicodeDecodeError):
            if b"\0" not in text:
                found[text.decode()] = None
    known = list(found)
    # A text in capitals and two texts in a row test normalizers and splitters.
    more = [" ".join(known[:2]), *(text.upper() for text in known[:1])]
    return Texts(known[:: -(-len(known) // _MOST) or 1], tuple(dict.fromkeys((*_OTHERS, *more))))
