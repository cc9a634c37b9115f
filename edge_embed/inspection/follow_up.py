"""Changes of an exported model by other tools: which one likely removed our nodes or their bodies, and the remedy."""

from collections.abc import Iterable

from onnx import ModelProto

from edge_embed.exporters.onnx.names import OPSET

NO_NODES = (
    "slow path only: no node of edge-embed is left, so the tables are looked up by standard operators and the operator "
    "library has no effect"
)
_OF_ORT = "_inlfunc_"  # prefix of the values that ONNX Runtime inlines


def nodes_are_gone(model: ModelProto) -> str:
    """Return the warning for a model with our tables and none of our nodes."""
    if any(name.startswith(_OF_ORT) for node in model.graph.node for name in node.output):
        return (
            f"{NO_NODES}. ONNX Runtime inlined the portable bodies: pass skip_optimization=True to quant_pre_process; "
            "save no optimised model, or register the library first"
        )
    return (
        f"{NO_NODES}. A tool inlined the portable bodies, likely onnxscript's optimizer or version converter, or "
        "onnx.inliner: use the exported file without that step"
    )


def bodies_are_gone(model: ModelProto, op_types: Iterable[str]) -> str:
    """Return the warning for nodes without their functions."""
    what = f"{', '.join(op_types)}: no portable body, the file needs the operator library"
    opset = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), OPSET)
    if opset != OPSET:
        return (
            f"{what}. Likely onnx.version_converter dropped it between opset {OPSET} and {opset}: use the exported "
            "file without that step"
        )
    return (
        f"{what}. Likely ONNX Runtime dropped it when it saved an optimised model with the library registered: use the "
        "exported file, which every session optimises"
    )
