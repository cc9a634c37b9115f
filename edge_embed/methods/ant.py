"""ANT, a few anchors times a sparse transform: rows are sums of anchors."""

from collections.abc import Mapping
from typing import Any

from edge_embed.methods.registry import Method
from edge_embed.methods.words import Words

_SMALL = 4.0  # compression ratio from which a table is small enough to need no remark
_SPARSE = 0.25  # share of weights that a transform trained without a penalty exceeds


def _layout(values: Mapping[str, Any]) -> str:
    empty = "" if values["num_nonzeros"] else ", all rows are zero"
    return f"A={values['num_anchors']} nonzeros={values['num_nonzeros']:,} {values['weight_type']}{empty}"


def _why_large(ratio: float, rows: int, values: Mapping[str, Any]) -> str:
    density = values["num_nonzeros"] / (rows * values["num_anchors"])
    return f"{density:.0%} of the transform is nonzero" if ratio < _SMALL and density > _SPARSE else ""


ANT = Method(
    "ant",
    {
        "packed": "edge_embed.packed.ant:PackedANT",
        "operators": "edge_embed.ops.ant_mixture:FORMS",
        "layers": "edge_embed.layers.ant:frozen_layer",
        "lowering": "edge_embed.lowering.ant:ANT",
        "nodes": "edge_embed.exporters.onnx.nodes.ant:NODES",
        "onnx": "edge_embed.exporters.onnx.ant:METHODS",
        "tflite": "edge_embed.exporters.tflite.ant:ANT",
        "validation": "edge_embed.validation.ant:ANT",
        "inspection": "edge_embed.inspection.ant:FORMS",
        "fitting": "edge_embed.fitting.ant:ANT",
        "bench": "edge_embed.bench.ant:ANT",
        "kernels": "edge_embed.bench.ant:KERNEL",
        "compress_bench": "edge_embed.bench.compressors:ANT",
    },
    Words(
        "made of anchors",
        _layout,
        "transform",
        "anchors",
        "anchors",
        "train with edge_embed.ProximalOptimizer, and raise its penalty",
        _why_large,
    ),
    is_core=True,
)
