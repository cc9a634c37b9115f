"""TT, tensor-train cores: rows are products of their slices. Rings (tr) and two cores (low_rank) are stored alike."""

from collections.abc import Mapping
from typing import Any

from edge_embed.methods.registry import Method
from edge_embed.methods.words import Words


def _layout(values: Mapping[str, Any]) -> str:
    rows, columns, ranks = ("x".join(map(str, values[name])) for name in ("row_shape", "col_shape", "ranks"))
    return f"I={rows} J={columns} R={ranks}" + (", ordered" if "has_row_order" in values else "")


TT = Method(
    "tt",
    {
        "packed": "edge_embed.packed.tt:PackedTT",
        "operators": "edge_embed.ops.tt:FORMS",
        "layers": "edge_embed.layers.tr:frozen_layer",
        "lowering": "edge_embed.lowering.tt:TT",
        "nodes": "edge_embed.exporters.onnx.nodes.tt:NODES",
        "onnx": "edge_embed.exporters.onnx.tt:METHODS",
        "session memory": "edge_embed.exporters.onnx.session_memory.tt:TT",
        "tflite": "edge_embed.exporters.tflite.tt:TT",
        "validation": "edge_embed.validation.tt:TT",
        "inspection": "edge_embed.inspection.tt:FORMS",
        "fitting": "edge_embed.fitting.tt:TT",
        "bench": "edge_embed.bench.tt:TT",
        "kernels": "edge_embed.bench.tt:KERNEL",
        "compress_bench": "edge_embed.bench.compressors:TT",
    },
    Words("a tensor train", _layout, "order", "cores", "core_", "use a lower rank"),
    is_core=True,
)
TR = Method("tr", {"fitting": "edge_embed.fitting.tr:TR"})
LOW_RANK = Method(
    "low_rank",
    {"fitting": "edge_embed.fitting.low_rank:LOW_RANK", "compress_bench": "edge_embed.bench.compressors:LOW_RANK"},
)
