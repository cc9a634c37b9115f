"""What becomes of a lowered program in TFLite, on the way to a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder
from edge_embed.program.program import Sizes


@dataclass(frozen=True)
class Translated:
    """A program as a model of TFLite.

    Attributes:
        builder: the model, complete but for its metadata.
        hashes: SHA-256 of what tables store, by name of the tensor.
        delegate: the line of each use in the manifest that the delegate reads, None where it has none.
        shapes: of inputs and outputs, in order: names of dynamic dimensions, and sizes, those of all signatures.
        signatures: the sizes of the dynamic dimensions of the program, by name of the signature that is for them alone.
    """

    builder: ModelBuilder
    hashes: Mapping[str, str]
    delegate: Sequence[str | None]
    shapes: Mapping[str, Sequence[str]]
    signatures: Mapping[str, Sizes]
