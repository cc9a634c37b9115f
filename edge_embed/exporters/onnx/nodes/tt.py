"""Nodes of tensor trains and rings: ``TT...``, and ``TTOrdered...`` for tables that store the row of each id."""

from dataclasses import replace

from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs, check_ranks, value_type
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES, TTShape


def _core_names(count: int) -> tuple[str, ...]:
    return tuple(f"core_{k}" for k in range(min(max(count, MIN_CORES), MAX_CORES)))


def _shape(attributes: Attributes, tensors: Specs) -> TTShape:
    cores = {name: spec for name, spec in tensors.items() if name != "row_order"}
    check_ranks(cores, dict.fromkeys(cores, 4))
    rows, befores, columns, afters = zip(*(spec.shape for spec in cores.values()), strict=True)
    sizes = attributes["num_embeddings"], rows, columns, (befores[0], *afters)
    return TTShape(*sizes, value_type(cores["core_0"]), has_row_order="row_order" in tensors)


TT = NodeSchema("TT", _core_names, ("format_version", "num_embeddings", "padding_idx"), _shape)
ORDERED_TT = replace(TT, prefix="TTOrdered", tensors=lambda count: (*_core_names(count - 1), "row_order"))
NODES = (TT, ORDERED_TT)
