"""DPQ, codes of groups of columns: trained, or by k-means (dpq), after a rotation (opq), by rounding (rows)."""

from collections.abc import Mapping
from typing import Any

from edge_embed.methods.registry import Method
from edge_embed.methods.words import Words


def _layout(values: Mapping[str, Any]) -> str:
    shared = ", shared" if values["share_subspaces"] else ""
    scales = f", {values['num_row_scales']} row scales" if "num_row_scales" in values else ""
    return f"K={values['num_codes']} D={values['num_groups']} {values['bits']} bit{shared}{scales}"


DPQ = Method(
    "dpq",
    {
        "packed": "edge_embed.packed.dpq:PackedDPQ",
        "operators": "edge_embed.ops.dpq:FORMS",
        "layers": "edge_embed.layers.scaled_dpq:frozen_layer",
        "lowering": "edge_embed.lowering.dpq:DPQ",
        "nodes": "edge_embed.exporters.onnx.nodes.dpq:NODES",
        "onnx": "edge_embed.exporters.onnx.dpq:METHODS",
        "session memory": "edge_embed.exporters.onnx.session_memory.dpq:DPQ",
        "tflite": "edge_embed.exporters.tflite.dpq:DPQ",
        "validation": "edge_embed.validation.dpq:DPQ",
        "inspection": "edge_embed.inspection.dpq:FORMS",
        "fitting": "edge_embed.fitting.dpq:DPQ",
        "bench": "edge_embed.bench.dpq:DPQ",
        "kernels": "edge_embed.bench.dpq:KERNEL",
        "compress_bench": "edge_embed.bench.compressors:DPQ",
    },
    Words("product-quantised", _layout, "codes", "values", "value", "use fewer codes"),
    is_core=True,
)
DPQ_SCALED = Method("dpq_scaled", {"kernels": "edge_embed.bench.dpq:SCALED_KERNEL"})  # tables of dpq with row scales
OPQ = Method("opq", {"fitting": "edge_embed.fitting.opq:OPQ"})
ROWS = Method("rows", {"operators": "edge_embed.ops.integers:FORMS", "fitting": "edge_embed.fitting.rows:ROWS"})
