"""Nodes of sparse activations, which use no table: their inputs and attributes."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ActivationSchema:
    """The inputs and attributes of one type of node; the output is ``probabilities``.

    Attributes:
        inputs: names of the inputs.
        attribute_names: names of the integer attributes.
    """

    inputs: tuple[str, ...] = ("scores",)
    attribute_names: tuple[str, ...] = ("format_version",)


ACTIVATIONS: Mapping[str, ActivationSchema] = {
    "Sparsemax": ActivationSchema(),
    "Entmax15": ActivationSchema(),
    "Entmax": ActivationSchema(inputs=("scores", "alpha")),
    "TopKSparsemax": ActivationSchema(attribute_names=("format_version", "k")),
}
"""Schemas by type of node."""

OUTPUT = "probabilities"
