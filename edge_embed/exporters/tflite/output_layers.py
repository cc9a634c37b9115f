"""Output layers in TFLite: rows in blocks, each decoded from the packed table and multiplied with the hidden states.

    hidden [*, d], rows of ids 0 ... n - 1  ->  logits [*, n]
    top-k: the k largest logits (plus a bias [n]) [*, k] and their ids, equal ones by lowest id

The rows of each block reuse the memory of the previous block. Sizes are fixed, because the runtime cannot resize a
product of two computed tensors.
"""

from collections.abc import Callable

import numpy as np

from edge_embed.exporters.tflite.graph import Graph, Tensor

_BLOCK_ROWS = 4096

Rows = Callable[[Tensor], Tensor]  # ids [*] -> rows [*, d]


def logits(graph: Graph, hidden: Tensor, rows: Rows, num_rows: int) -> Tensor:
    """Add products of hidden states [*, d] with every row, [*, n], in the type of the hidden states."""
    flat = graph.cast(graph.reshape(hidden, (-1, hidden.shape[-1])), "float32")  # [B, d]
    zero = _zero(graph, flat)
    blocks = []
    for first in range(0, num_rows, _BLOCK_ROWS):
        numbers = graph.constant(np.arange(min(_BLOCK_ROWS, num_rows - first)))
        ids = graph.binary("ADD", numbers, graph.binary("ADD", zero, graph.constant(first)))
        blocks.append(graph.products(flat, graph.cast(rows(ids), "float32")))  # [B, block]
    made = blocks[0] if len(blocks) == 1 else graph.concatenate(blocks)
    return graph.cast(graph.reshape(made, (*hidden.shape[:-1], num_rows)), hidden.dtype)


def largest(graph: Graph, found: Tensor, bias: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """Add the k largest of logits [*, n] plus a bias, [*, k] in order, and their ids, int32."""
    return graph.topk(found if bias is None else graph.binary("ADD", found, bias), k)


def _zero(graph: Graph, hidden: Tensor) -> Tensor:
    """Return a computed zero [1]: from constants alone a runtime would compute all rows at once, and keep them."""
    first = graph.slice(graph.flatten(hidden), 0, 1)
    same = graph.cast(graph.binary("EQUAL", first, first), "int32")  # 0 for NaN
    return graph.binary("SUB", same, same)
