"""Ids as int32, for arithmetic that TFLite has for int32 only."""

from edge_embed.exporters.tflite.graph import Graph, Tensor


def int32_ids(graph: Graph, ids: Tensor, num_rows: int) -> Tensor:
    """Convert ids to int32; ids out of range are refused by a ``GATHER``."""
    above = graph.binary("LESS", graph.constant(-1, ids.dtype), ids)
    below = graph.binary("LESS", ids, graph.constant(num_rows, ids.dtype))
    sound = graph.binary("ADD", graph.cast(above, "int32"), graph.cast(below, "int32"))  # 2 if both conditions hold
    nothing = graph.gather(graph.constant([0]), graph.binary("SUB", sound, graph.constant(2)))
    return graph.binary("ADD", graph.cast(ids, "int32"), nothing)
