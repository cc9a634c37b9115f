"""Products of hidden states with all rows of a packed table, in place of an output layer that shares it."""

from typing import Any

from edge_embed.compression.tflite.tied_output_layers import NO_BIAS, TiedOutputLayer
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.splice import tensor_at
from edge_embed.exporters.tflite.table_uses import add_use
from edge_embed.fitting.fitted_table import Stored


def add_product(
    added: Graph, graph: Any, layer: TiedOutputLayer, name: str, stored: Stored, layout: str
) -> tuple[Tensor, str | None]:
    """Add the product with all rows of a packed table.

    Apps may set other sizes of hidden states than those of the file.

    Returns:
        The result, and the line of this use for the delegate, as in `add_use`.
    """
    given, dim = tensor_at(graph, layer.hidden), stored.plain.embedding_dim
    rank = len(given.shape)
    dynamic = Tensor(given.index, given.name, given.dtype, (*(-1,) * (rank - 1), dim))
    flat = dynamic if rank == 2 else added.reshape(dynamic, (-1, dim))
    if stored.rotation is not None:
        rotation = added.cast(added.constant(stored.rotation, stored.rotation.dtype.name), "float32")
        flat = added.products(flat, rotation)
    (made,), line = add_use(added, "logits", name, stored.plain, layout, [flat])
    if layer.bias != NO_BIAS or layer.activation:
        bias = added.constant(0, "float32") if layer.bias == NO_BIAS else tensor_at(graph, layer.bias)
        made = added.binary("ADD", made, bias, fusedActivationFunction=layer.activation)
    if layer.keeps_shape and rank != 2:
        count = stored.plain.num_embeddings
        made = added.reshape_like(made, added.sum(dynamic, [rank - 1]), count)
    return made, line
