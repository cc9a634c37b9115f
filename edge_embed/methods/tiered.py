"""Tiered tables: three tiers, from many bits for frequent rows to few for rare ones; each is stored as DPQ."""

from collections.abc import Mapping
from typing import Any

from edge_embed.methods.dpq import DPQ
from edge_embed.methods.registry import Method
from edge_embed.methods.words import Words


def _layout(values: Mapping[str, Any]) -> str:
    assert DPQ.words is not None
    layout = DPQ.words.layout
    tiers = "; ".join(f"{tier['num_embeddings']:,} rows {layout(tier)}" for tier in values["tiers"])
    return tiers + (", mapped" if values["has_map"] else "")


TIERED = Method(
    "tiered",
    {
        "packed": "edge_embed.packed.tiered:PackedTiered",
        "operators": "edge_embed.ops.tiered:FORMS",
        "layers": "edge_embed.layers.tiered:frozen_layer",
        "lowering": "edge_embed.lowering.tiered:TIERED",
        "nodes": "edge_embed.exporters.onnx.nodes.tiered:NODES",
        "onnx": "edge_embed.exporters.onnx.tiered:METHODS",
        "tflite": "edge_embed.exporters.tflite.tiered:TIERED",
        "validation": "edge_embed.validation.tiered:TIERED",
        "inspection": "edge_embed.inspection.tiered:FORMS",
        "fitting": "edge_embed.fitting.tiered:TIERED",
        "bench": "edge_embed.bench.tiered:TIERED",
        "kernels": "edge_embed.bench.tiered:KERNEL",
    },
    Words("tiered", _layout, "codes", "values", "tier_", "use fewer rows in the first tiers"),
)
