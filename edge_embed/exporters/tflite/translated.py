"""A lowered program as a TFLite model, before it is written to a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder
from edge_embed.program.program import Sizes


@dataclass(frozen=True)
class Translated:
    """A program as a model of TFLite.

    Attributes:
        builder: the model, complete except for its metadata.
        hashes: SHA-256 of the stored tensors of tables, by name of the tensor.
        delegate: the line of each use in the manifest of the delegate, or None.
        shapes: dimensions of inputs and outputs, in order: names of dynamic ones, and sizes, those of all signatures.
        signatures: the sizes of the dynamic dimensions of the program, by name of the signature for these sizes.
    """

    builder: ModelBuilder
    hashes: Mapping[str, str]
    delegate: Sequence[str | None]
    shapes: Mapping[str, Sequence[str]]
    signatures: Mapping[str, Sizes]
