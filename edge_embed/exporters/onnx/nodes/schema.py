"""Schemas of nodes: the name of a type, its inputs and outputs, its attributes.

    <prefix><suffix> (<inputs of the use>, <tensors of the table>) -> outputs of the use

A method has a prefix for each kind of table, a use a suffix: ``DPQ`` and ``EmbeddingBag`` give ``DPQEmbeddingBag``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edge_embed.errors import BadInputError
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.packed_form import TableShape, TensorSpec, Use

Attributes = Mapping[str, int]
Specs = Mapping[str, TensorSpec]


@dataclass(frozen=True)
class UseSchema:
    """The inputs, outputs and attributes of a use of a table.

    Attributes:
        suffix: end of the name of its nodes.
        inputs: names of the inputs before the packed tensors.
        outputs: names of the outputs.
        attribute_names: names of its own attributes.
    """

    suffix: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attribute_names: tuple[str, ...] = ()


USES: Mapping[Use, UseSchema] = {
    "rows": UseSchema("Embedding", ("ids",), ("rows",)),
    "bag": UseSchema("EmbeddingBag", ("ids", "offsets", "sample_weights"), ("bags",), ("mode", "weighted")),
    "logits": UseSchema("Logits", ("hidden",), ("logits",)),
    "topk": UseSchema("TopK", ("hidden", "bias"), ("top_values", "top_ids"), ("k", "biased")),
}


@dataclass(frozen=True)
class NodeSchema:
    """One kind of table of a method.

    Attributes:
        prefix: start of the names of its nodes.
        tensors: returns the names of the packed tensors among a node's inputs, from their number.
        attribute_names: names of the integer attributes that describe a table, in order.
        shape: returns the sizes of a table from those attributes and the types and shapes of its tensors, which are not
            all checked yet; raises `BadInputError` if they are invalid.
    """

    prefix: str
    tensors: Callable[[int], tuple[str, ...]]
    attribute_names: tuple[str, ...]
    shape: Callable[[Attributes, Specs], TableShape]


def value_type(spec: TensorSpec) -> str:
    """Return the type of the rows; an unsupported type is refused later by name, in a check of all tensors."""
    return spec.dtype if spec.dtype in FLOAT_BYTES else "float32"


def check_ranks(tensors: Specs, ranks: Mapping[str, int]) -> None:
    """Raise `BadInputError` for a tensor with another number of dimensions."""
    for name, rank in ranks.items():
        if len(tensors[name].shape) != rank:
            raise BadInputError(f"{name}: got shape {list(tensors[name].shape)}, expected {rank} dimensions")
