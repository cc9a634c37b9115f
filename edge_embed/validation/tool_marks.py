"""Marks that common tools leave in an exported file, from which the kind of change is derived.

Without such a mark, a change by a tool cannot be distinguished from damage.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata

from onnx import ModelProto, NodeProto

from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.validation.expected_export import Structure, Written

_PRODUCER = "edge-embed"
_FLOATS = ("float32", "float16", "bfloat16", "float64")
# Operators that simplifiers fold, merge and remove: they change sizes, order and types of numbers, not values.
_LAYOUT = frozenset(
    "Cast Concat Constant ConstantOfShape Expand Flatten Gather Identity Reshape Shape Size Slice Split Squeeze Tile "
    "Transpose Unsqueeze".split()
)
_QUANTISED = frozenset(
    "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear".split()
)
_FOREIGN = ("com.microsoft", "com.microsoft.nchwc", "ai.onnx.contrib")


def tool_marks(model: ModelProto, found: Structure, specs: Mapping[str, TensorSpec | None], written: Written) -> str:
    """Return the changes of a file in words, or an empty string without a mark.

    Args:
        model: the file.
        found: its structure.
        specs: type and shape of its tensors, by the names that an export gives them.
        written: the contents of an export.
    """
    return ", ".join(_marks(model, found, specs, written))


def _marks(
    model: ModelProto, found: Structure, specs: Mapping[str, TensorSpec | None], written: Written
) -> Iterator[str]:
    if model.producer_name != _PRODUCER:
        yield f"written by {model.producer_name or 'a tool without a name'!r:.40}"
    elif model.producer_version != (here := metadata.version(_PRODUCER)):
        yield f"exported by edge-embed {model.producer_version!r:.20}, this is {here}"
    expected = {node.op_type for node in written.structure.nodes}
    kinds = {(node.domain, node.op_type) for node in found.nodes}
    new = sorted(kind for domain, kind in kinds if (kind in _QUANTISED or domain in _FOREIGN) and kind not in expected)
    if new:
        yield f"quantised or fused ({', '.join(new)})"
    if any(_is_converted(specs.get(name), stored.spec) for name, stored in written.tensors.items()):
        yield "converted to another float type"
    if _is_simplified(found, written.structure):
        yield "simplified"


def _is_converted(got: TensorSpec | None, expected: TensorSpec) -> bool:
    if got is None or got.shape != expected.shape or got.dtype == expected.dtype:
        return False
    return got.dtype in _FLOATS and expected.dtype in _FLOATS


def _is_simplified(found: Structure, expected: Structure) -> bool:
    """Return whether the graph has fewer nodes than expected, with equal counts of nodes that compute."""
    if len(found.nodes) >= len(expected.nodes):
        return False
    return _computing(found) == _computing(expected)


def _computing(structure: Structure) -> Counter[str]:
    """Count the nodes of each kind that compute with data; nodes that compute sizes are left out."""
    data = _data(structure)
    counts = Counter(node.op_type for node in data if node.domain == DOMAIN or node.op_type not in _LAYOUT)
    for _ in range(counts.pop("Gemm", 0)):  # simplifiers merge a product and a sum
        counts.update(("MatMul", "Add"))
    return counts


def _data(structure: Structure) -> Iterable[NodeProto]:
    """Yield nodes whose results depend on the values of an input, not only on its sizes."""
    reached = {port.name for port in structure.inputs}
    for node in structure.nodes:
        # A graph inside a node may read any value.
        inner = any(item.HasField("g") or item.graphs for item in node.attribute)
        if inner or (node.op_type not in ("Shape", "Size") and reached.intersection(node.input)):
            reached.update(node.output)
            yield node
