"""Differences between the nodes of two graphs, in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from onnx import AttributeProto, NodeProto, helper

_MOST_NAMED = 4


def key_of(node: NodeProto) -> bytes:
    """Return bytes that are equal for nodes with equal operator, inputs, outputs and attributes, whatever the name."""
    plain = NodeProto()
    plain.CopyFrom(node)
    for field in ("name", "doc_string", "metadata_props"):
        plain.ClearField(field)
    attributes = sorted(plain.attribute, key=lambda item: item.name)
    del plain.attribute[:]
    plain.attribute.extend(attributes)
    serialized: bytes = plain.SerializeToString(deterministic=True)
    return serialized


def unmatched(nodes: Iterable[NodeProto], others: Iterable[NodeProto]) -> list[NodeProto]:
    """Return the nodes of ``nodes`` that ``others`` lacks, in any order."""
    left = Counter(map(key_of, others))
    found = []
    for node in nodes:
        key = key_of(node)
        if left[key]:
            left[key] -= 1
        else:
            found.append(node)
    return found


def describe(got: Sequence[NodeProto], expected: Sequence[NodeProto]) -> str:
    """Describe the differences, from nodes that only one side has; the first few are named."""
    lines = list(_lines(got, expected))
    more = f"; and {len(lines) - _MOST_NAMED} more" if len(lines) > _MOST_NAMED else ""
    return "; ".join(lines[:_MOST_NAMED]) + more


def _lines(got: Sequence[NodeProto], expected: Sequence[NodeProto]) -> Iterator[str]:
    by_output = {node.output[0]: node for node in got if node.output}
    for wanted in expected:
        found = by_output.pop(wanted.output[0], None) if wanted.output else None
        yield f"{title(wanted)} is missing" if found is None else f"{title(wanted)}: {_difference(found, wanted)}"
    yield from (f"{title(node)} is unexpected" for node in by_output.values())
    yield from (f"{title(node)} is unexpected" for node in got if not node.output)


def title(node: NodeProto) -> str:
    """Return operator and outputs of a node, such as ``MatMul -> logits``."""
    return f"{node.op_type} -> {', '.join(node.output)}"


def _difference(got: NodeProto, expected: NodeProto) -> str:
    if (got.domain, got.op_type) != (expected.domain, expected.op_type):
        domain = f" of {got.domain}" if got.domain != expected.domain else ""
        return f"got {got.op_type}{domain}"
    for what in ("input", "output"):
        names, wanted = list(getattr(got, what)), list(getattr(expected, what))
        if names != wanted:
            return f"got {what}s {', '.join(names) or 'none'}, expected {', '.join(wanted) or 'none'}"
    found, wanted_attributes = ({item.name: item for item in node.attribute} for node in (got, expected))
    for name in [*wanted_attributes, *found]:
        if found.get(name) != wanted_attributes.get(name):
            return f"{name}: got {_value(found.get(name))}, expected {_value(wanted_attributes.get(name))}"
    return "differs"


def _value(attribute: AttributeProto | None) -> str:
    if attribute is None:
        return "none"
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if attribute.type == AttributeProto.TENSOR:
        content = attribute.t.raw_data or attribute.t.SerializeToString(deterministic=True)
        return f"a tensor {list(attribute.t.dims)} of {content.hex()[:32]}"
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return "a different graph"
    return f"{helper.get_attribute_value(attribute)!r:.80}"
