"""Comparison of a compressed ONNX file with a new compression of its original, except for numbers of packed tables.

Nodes are compared in order, with names, attributes and the graphs inside them. Constants are compared bit by bit,
wherever they are stored.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from edge_embed.errors import one_line
from edge_embed.exporters.onnx.model_file import ExternalTensor, dtype_name, tensors_of_attribute, tensors_of_node
from edge_embed.exporters.onnx.names import FIDELITY_KEY, MANIFEST_KEY
from edge_embed.report.results.validation import Check

_MOST_NAMED = 4
_REMEDY = "compress the original again"
_BLOCK = 1 << 20
_COMPARED = ("node", "initializer", "sparse_initializer", "input", "output", "name", "doc_string")


def compare_structure(
    got: ModelProto, folder: Path, expected: ModelProto, expected_folder: Path, tables: Set[str]
) -> tuple[Check, ...]:
    """Compare two models.

    Args:
        got: the compressed file.
        folder: folder of its external data.
        expected: the output of `compress`, made again.
        expected_folder: folder of the external data of that.
        tables: names of the tensors of packed tables, which are equal on both sides.
    """
    graph, other = got.graph, expected.graph
    found = {
        "nodes": list(_nodes(graph.node, other.node)),
        "constants": list(_Constants(folder, expected_folder, tables).differences(got, expected)),
        "inputs and outputs": [*_values(graph.input, other.input, "input"),
                               *_values(graph.output, other.output, "output")],
        "portable bodies and functions": list(_functions(got, expected)),
        "versions and metadata": list(_rest(got, expected)),
    }  # fmt: skip
    counts = {"nodes": f"{len(other.node)} in their order", "constants": f"{len(other.initializer)} bit by bit"}
    return tuple(_check(name, differences, counts.get(name, "the same")) for name, differences in found.items())


def _check(what: str, differences: Sequence[str], count: str) -> Check:
    name = f"{what} as compress writes them"
    if not differences:
        return Check(name, "passed", count)
    more = f"; and {len(differences) - _MOST_NAMED} more" if len(differences) > _MOST_NAMED else ""
    return Check(name, "failed", f"{'; '.join(differences[:_MOST_NAMED])}{more}: {_REMEDY}")


def _nodes(got: Sequence[NodeProto], expected: Sequence[NodeProto]) -> Iterator[str]:
    """Yield differences of nodes, matched by first output, then of their order; constants are compared elsewhere."""
    by_result = {node.output[0]: node for node in got if node.output}
    results = {node.output[0] for node in expected if node.output}
    for node in expected:
        other = by_result.get(node.output[0]) if node.output else None
        if other is None:
            yield f"{_title(node)} is missing"
        elif difference := _difference(other, node):
            yield f"{_title(node)}: {difference}"
    more = [node for result, node in by_result.items() if result not in results]
    yield from (f"{_title(node)} is unexpected" for node in more)
    if [list(node.output) for node in got] != [list(node.output) for node in expected] and not more:
        yield f"the order of {len(got)} nodes differs, or some nodes are duplicates"


def _title(node: NodeProto) -> str:
    name = f" {node.name!r:.80}" if node.name else ""
    return f"{node.op_type}{name} -> {', '.join(node.output):.80}"


def _difference(got: NodeProto, expected: NodeProto) -> str:
    for what in ("domain", "op_type", "name", "input", "output", "overload"):
        one, other = (_plain(getattr(node, what)) for node in (got, expected))
        if one != other:
            return f"{what}: got {one!r:.80}, expected {other!r:.80}"
    found, wanted = ({item.name: item for item in node.attribute} for node in (got, expected))
    for name in dict.fromkeys((*wanted, *found)):
        pair = [_without_numbers(side.get(name)) for side in (found, wanted)]
        if pair[0] != pair[1]:
            return f"attribute {name} differs"
    return ""


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _without_numbers(attribute: Any) -> bytes:
    """Serialise an attribute without the contents of its tensors, which `_Constants` compares."""
    if attribute is None:
        return b""
    copy = type(attribute)()
    copy.CopyFrom(attribute)
    for tensor in tensors_of_attribute(copy):
        plain = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        tensor.CopyFrom(plain)
    content: bytes = copy.SerializeToString(deterministic=True)
    return content


def _titled(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield all tensors of a model with unique names for messages."""
    seen: dict[str, int] = {}

    def unique(name: str) -> str:
        seen[name] = seen.get(name, 0) + 1
        return name if seen[name] == 1 else f"{name} ({seen[name]})"

    for tensor in model.graph.initializer:
        yield unique(tensor.name), tensor
    for sparse in model.graph.sparse_initializer:
        yield unique(f"{sparse.values.name} (values)"), sparse.values
        yield unique(f"{sparse.values.name} (indices)"), sparse.indices
    for owner, nodes in (("", model.graph.node), *((body.name, body.node) for body in model.functions)):
        for node in nodes:
            for tensor in tensors_of_node(node):
                place = f"{owner}: " if owner else ""
                yield unique(f"{place}{tensor.name or 'constant'} of {_title(node)}"), tensor


class _Constants:
    """Comparison of the constants of two models, bit by bit."""

    def __init__(self, folder: Path, expected_folder: Path, tables: Set[str]) -> None:
        self._folders, self._tables = (folder, expected_folder), tables

    def differences(self, got: ModelProto, expected: ModelProto) -> Iterator[str]:
        """Yield the constants that one side lacks, and those that differ."""
        found, wanted = dict(_titled(got)), dict(_titled(expected))
        for title, tensor in wanted.items():
            if title not in found:
                yield f"{title} is missing"
            elif difference := self._difference(title, found[title], tensor):
                yield f"{title}: {difference}"
        yield from (f"{title} is unexpected" for title in found if title not in wanted)

    def _difference(self, title: str, got: TensorProto, expected: TensorProto) -> str:
        kinds = [f"{dtype_name(one.data_type)} {list(one.dims)}" for one in (got, expected)]
        if kinds[0] != kinds[1]:
            return f"got {kinds[0]}, expected {kinds[1]}"
        if title in self._tables:
            return ""  # the expected model got the numbers from the file itself
        try:
            one, other = (_bytes(tensor, folder) for tensor, folder in zip((got, expected), self._folders, strict=True))
        except ValueError as error:  # onnx raises it for numbers that do not fit the sizes
            return f"is not a valid tensor: {one_line(error)}"
        if len(one) != len(other):
            return f"got {len(one):,} bytes, expected {len(other):,}"
        for begin in range(0, len(one), _BLOCK):
            left, right = one[begin : begin + _BLOCK], other[begin : begin + _BLOCK]
            if not np.array_equal(left, right):
                at = int(np.flatnonzero(left != right)[0])
                return f"byte {begin + at:,} is 0x{left[at]:02x}, expected 0x{right[at]:02x}"
        return ""


def _bytes(tensor: TensorProto, folder: Path) -> NDArray[np.uint8]:
    if tensor.data_location == TensorProto.EXTERNAL:
        external = ExternalTensor(folder, tensor)
        if not external.nbytes:
            return np.empty(0, np.uint8)
        return np.memmap(external.path, np.uint8, "r", external.begin, (external.nbytes,))
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    if tensor.data_type == TensorProto.STRING:
        return np.frombuffer(b"\0".join(tensor.string_data), np.uint8)
    return np.frombuffer(numpy_helper.to_array(tensor).tobytes(), np.uint8)


def _values(got: Sequence[Any], expected: Sequence[Any], what: str) -> Iterator[str]:
    names = [[value.name for value in side] for side in (got, expected)]
    if names[0] != names[1]:
        yield f"{what}s: got {', '.join(names[0]) or 'none'}, expected {', '.join(names[1]) or 'none'}"
        return
    for one, other in zip(got, expected, strict=True):
        if _content(one) != _content(other):
            yield f"{what} {one.name}: its type or sizes differ"


def _functions(got: ModelProto, expected: ModelProto) -> Iterator[str]:
    found, wanted = ({(one.domain, one.name): one for one in model.functions} for model in (got, expected))
    for (domain, name), body in wanted.items():
        other, title = found.get((domain, name)), f"{domain}::{name}"
        if other is None:
            yield f"{title} is missing"
        elif nodes := list(_nodes(other.node, body.node)):
            yield f"{title}: {nodes[0]}"
        elif _bare(other) != _bare(body):
            yield f"{title}: its inputs, outputs, attributes or operator sets differ"
    yield from (f"{domain}::{name} is unexpected" for domain, name in found.keys() - wanted.keys())


def _bare(function: Any) -> bytes:
    copy = type(function)()
    copy.CopyFrom(function)
    del copy.node[:]
    return _content(copy)


def _rest(got: ModelProto, expected: ModelProto) -> Iterator[str]:
    found, wanted = (_texts(model) for model in (got, expected))
    for key in dict.fromkeys((*wanted, *found)):
        if found.get(key) != wanted.get(key):
            yield f"{key}: got {found.get(key)!r:.80}, expected {wanted.get(key)!r:.80}"
    left, right = (_content(_shell(model)) for model in (got, expected))
    if left != right:
        yield "descriptions of values or other fields differ"


def _texts(model: ModelProto) -> Mapping[str, str]:
    """Return versions and metadata, without hashes and fidelity, which are compared with tensors and rows."""
    texts = {f"metadata {item.key}": item.value for item in model.metadata_props}
    for key in (MANIFEST_KEY, FIDELITY_KEY):
        texts.pop(f"metadata {key}", None)
    for item in model.opset_import:
        texts[f"operator set {item.domain or 'ai.onnx'}"] = str(item.version)
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        texts[name] = str(getattr(model, name))
    return {**texts, "name of the graph": model.graph.name, "text of the graph": model.graph.doc_string}


def _shell(model: ModelProto) -> ModelProto:
    """Copy the fields that no other comparison covers: training information, configurations, descriptions of values."""
    copy = ModelProto()
    for descriptor, value in model.ListFields():
        if descriptor.name not in ("graph", "functions", "metadata_props", "opset_import"):
            _put(copy, descriptor, value)
    for descriptor, value in model.graph.ListFields():
        if descriptor.name not in _COMPARED:
            _put(copy.graph, descriptor, value)
    return copy


def _put(message: Any, descriptor: Any, value: Any) -> None:
    if descriptor.is_repeated:
        getattr(message, descriptor.name).extend(value)
    elif descriptor.message_type is not None:
        getattr(message, descriptor.name).CopyFrom(value)
    else:
        setattr(message, descriptor.name, value)


def _content(message: Any) -> bytes:
    content: bytes = message.SerializeToString(deterministic=True)
    return content
