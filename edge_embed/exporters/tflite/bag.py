"""Bags in TFLite: the rows of all ids, reduced by bag.

    ids [N], offsets [B + 1], sample_weights [N] or none, rows [N, d]  ->  bags [B, d]

Ids equal to ``padding_idx`` belong to no bag: they are neither added, nor counted, nor part of the maximum. Sums are
computed in float32, in two steps, because a running sum of some thousand terms would lose more than a digit. Offsets
that do not run from 0 to N, or decrease, are counted. That count is an index into one element, and ``GATHER`` refuses
any index but 0.
"""

from edge_embed.exporters.tflite.ant import row_of_entries
from edge_embed.exporters.tflite.graph import Graph, Tensor

_TERMS = 64  # of the first step


def bags(
    graph: Graph,
    rows: Tensor,
    ids: Tensor,
    offsets: Tensor,
    sample_weights: Tensor | None,
    mode: str,
    padding_idx: int | None,
) -> Tensor:
    """Add the reduction of rows to [B, d], in their type; ``mode`` is ``sum``, ``mean`` or ``max``."""
    terms = graph.cast(rows, "float32")
    if sample_weights is not None:
        weights = graph.reshape(graph.cast(sample_weights, "float32"), (-1, 1))
        terms = graph.binary("MUL", terms, weights)
    begin = _checked(graph, offsets, graph.size(ids))  # [B]
    bag = row_of_entries(graph, begin, graph.shape(ids))  # [N]
    if padding_idx is not None:
        is_padding = graph.binary("EQUAL", ids, graph.constant(padding_idx, ids.dtype))
        bag = graph.select(is_padding, graph.constant(-1), bag)
    reduced = _reduced(graph, terms, bag, graph.size(begin), mode)
    return graph.cast(reduced, rows.dtype)


def _reduced(graph: Graph, terms: Tensor, bag: Tensor, num_bags: Tensor, mode: str) -> Tensor:
    found = graph.segment("MAX", terms, bag, num_bags) if mode == "max" else _sums(graph, terms, bag, num_bags)
    if mode == "sum":
        return found
    ones = graph.cast(graph.binary("EQUAL", bag, bag), "float32")  # [N]
    counts = graph.reshape(graph.segment("SUM", ones, bag, num_bags), (-1, 1))  # [B, 1]
    if mode == "mean":
        return graph.binary("DIV", found, graph.binary("MAXIMUM", counts, graph.constant(1, "float32")))
    none = graph.constant(0, "float32")
    return graph.select(graph.binary("EQUAL", counts, none), none, found)


def _sums(graph: Graph, terms: Tensor, bag: Tensor, num_bags: Tensor) -> Tensor:
    """Add sums of pieces of at most 64 terms of one bag, then of the pieces of each bag.

    The number of the piece rises at every 64th place and at every bag, so no two bags share a piece.
    """
    block = graph.binary("FLOOR_DIV", graph.range(graph.size(bag)), graph.constant(_TERMS))  # [N]
    blocks = graph.binary("FLOOR_DIV", graph.size(bag), graph.constant(_TERMS))
    num_pieces = graph.binary("ADD", graph.binary("ADD", blocks, num_bags), graph.constant(1))
    is_left_out = graph.binary("LESS", bag, graph.constant(0))
    piece = graph.select(is_left_out, graph.constant(-1), graph.binary("ADD", bag, block))
    sums = graph.segment("SUM", terms, piece, num_pieces)  # [P, d]
    owner = graph.segment("MAX", bag, piece, num_pieces)  # [P], negative for pieces without terms
    return graph.segment("SUM", sums, owner, num_bags)


def _checked(graph: Graph, offsets: Tensor, num_ids: Tensor) -> Tensor:
    """Add the starts of bags, int32 [B], with a check that refuses invalid offsets."""
    begin, end = graph.slice(offsets, 0, -1), graph.slice(offsets, 1, None)
    first, last = graph.slice(offsets, 0, 1), graph.slice(offsets, -1, None)
    none = graph.constant(0, offsets.dtype)
    falls = graph.reshape(graph.sum(graph.cast(graph.binary("LESS", end, begin), "int32"), (0,)), (1,))
    not_from_zero = graph.cast(graph.binary("NOT_EQUAL", first, none), "int32")
    not_to_all = graph.cast(graph.binary("NOT_EQUAL", last, graph.cast(num_ids, offsets.dtype)), "int32")
    wrong = graph.binary("ADD", falls, graph.binary("ADD", not_from_zero, not_to_all))
    return graph.binary("ADD", graph.cast(begin, "int32"), graph.gather(graph.constant([0]), wrong))
