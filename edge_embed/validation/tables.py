"""Every stored row: the tensors of a packed table are compared with those of the exported file, byte by byte.

The context is checked too: nodes that use the table have the right attributes, the portable body is in the file, and
so is the manifest with its hashes.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto

from edge_embed.exporters.onnx.bodies import method_of
from edge_embed.exporters.onnx.method import OnnxMethod
from edge_embed.exporters.onnx.names import MEMORY_BYTES
from edge_embed.inspection.follow_up import bodies_are_gone, nodes_are_gone
from edge_embed.lowering.graph import METHODS as LOWERING
from edge_embed.methods import Parts
from edge_embed.packed.container import little_endian
from edge_embed.packed.container import sha256 as hash_of
from edge_embed.packed.packed_form import PackedTable, TensorSpec, settings_of
from edge_embed.packed.stored_names import stored_names
from edge_embed.report.results.validation import Check
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.method import ValidationMethod

METHODS: Parts[ValidationMethod] = Parts("validation")

OnBytes = Callable[[int], None]


@dataclass(frozen=True)
class Table:
    """A lowered table and its expected contents in the exported file."""

    name: str
    packed: PackedTable

    @property
    def method(self) -> ValidationMethod:
        """Return the functions that put differences of this table into words."""
        return METHODS[self.packed.method]

    @property
    def onnx(self) -> OnnxMethod:
        """Return operator and portable body."""
        return method_of(LOWERING[self.packed.method].operators(self.packed))

    @property
    def tensors(self) -> list[str]:
        """Return the names of its initializers, in the order of the node's inputs."""
        return list(stored_names(self.name, self.packed.tensors()).values())

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of a packed operator that identify the table, tensors as arrays."""
        tensors: list[Any] = list(self.packed.tensors().values())
        return LOWERING[self.packed.method].arguments(self.packed, tensors)

    @property
    def settings(self) -> dict[str, Any]:
        """Return its settings besides method and size, by name."""
        return settings_of(self.packed)

    @property
    def row_type(self) -> "np.dtype[Any]":
        """Return the type of its rows."""
        return np.dtype(self.packed.row_type)


class Node(NamedTuple):
    """Expected type and attributes of a node."""

    op_type: str
    attributes: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.op_type} ({', '.join(f'{name}={value}' for name, value in sorted(self.attributes.items()))})"


def stored_checks(table: Table, nodes: Sequence[Node], exported: ExportedModel, on_bytes: OnBytes) -> tuple[Check, ...]:
    """Compare everything that is stored about a table.

    Args:
        table: the lowered table.
        nodes: the nodes that must use it, in any order.
        exported: the file.
        on_bytes: called with the number of bytes compared after each block.
    """
    hashes: dict[str, str] = {}
    rows = _stored_rows(table, exported, hashes, on_bytes)
    return (_nodes(table, nodes, exported), _body(nodes, exported), rows, _manifest(table, exported, hashes))


def _nodes(table: Table, expected: Sequence[Node], exported: ExportedModel) -> Check:
    found = [node_of(node) for node in exported.nodes_of(table.tensors)]
    if not exported.nodes:
        return Check("node", "failed", nodes_are_gone(exported.proto))
    if not found:
        detail = f"no node uses {', '.join(table.tensors)}: another tool replaced it, export again"
        return Check("node", "failed", detail)
    # The number of nodes is not compared: two lookups of the same ids become one.
    for node in found:
        if node not in expected:
            return Check("node", "failed", f"got {node}, expected {' or '.join(map(str, _distinct(expected)))}")
    for node in expected:
        if node not in found:
            return Check("node", "failed", f"expected {node}, got only {', '.join(map(str, _distinct(found)))}")
    counts = Counter(node.op_type for node in found)
    return Check("node", "passed", ", ".join(f"{count} x {name}" for name, count in counts.items()))


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    return [node for at, node in enumerate(nodes) if node not in nodes[:at]]


def node_of(node: NodeProto) -> Node:
    """Return type and attributes of one of our nodes, without the memory limit, which changes only roundings."""
    return Node(node.op_type, {item.name: item.i for item in node.attribute if item.name != MEMORY_BYTES})


def _body(nodes: Sequence[Node], exported: ExportedModel) -> Check:
    absent = sorted({node.op_type for node in nodes if not exported.has_body(node.op_type)})
    if not absent:
        return Check("portable body", "passed", "in the file")
    inlined = f"the file contains neither the function {', '.join(absent)} nor a node of edge-embed"
    detail = bodies_are_gone(exported.proto, absent) if exported.nodes else inlined
    return Check("portable body", "failed", detail)


def _stored_rows(table: Table, exported: ExportedModel, hashes: dict[str, str], on_bytes: OnBytes) -> Check:
    total = 0
    for name, tensor in zip(table.tensors, table.packed.tensors(), strict=True):
        expected, got = table.packed.shape.tensor_specs()[tensor], exported.spec(name)
        if got != expected:
            return Check("stored rows", "failed", f"{tensor}: got {_words(got)}, expected {_words(expected)}")
        difference = _first_difference(table, tensor, exported.blocks(name), hashes, partial(_add, on_bytes, total))
        if difference:
            return Check("stored rows", "failed", difference)
        total += table.packed.tensors()[tensor].nbytes
    return Check("stored rows", "passed", f"{table.packed.num_embeddings:,} rows, {total:,} bytes identical")


def _words(spec: TensorSpec | None) -> str:
    return "no initializer" if spec is None else f"{spec.dtype} {list(spec.shape)}"


def _add(on_bytes: OnBytes, before: int, done: int) -> None:
    on_bytes(before + done)


def _first_difference(
    table: Table, tensor: str, blocks: Iterator[memoryview], hashes: dict[str, str], on_bytes: OnBytes
) -> str:
    """Return the first difference of stored and packed bytes, or an empty string; add the hash of the stored bytes."""
    packed = little_endian(table.packed.tensors()[tensor]).reshape(-1).view(np.uint8)
    digest, offset, difference = hashlib.sha256(), 0, ""
    for block in blocks:
        digest.update(block)
        stored, expected = np.frombuffer(block, np.uint8), packed[offset : offset + len(block)]
        if not difference and not np.array_equal(stored, expected):
            at = int(np.flatnonzero(stored != expected)[0])
            bit = int(stored[at] ^ expected[at]).bit_length() - 1
            where = table.method.locate(table.packed, tensor, offset + at, bit)
            values = f"got byte 0x{stored[at]:02x}, expected 0x{expected[at]:02x}"
            difference = f"{tensor} differ at {where}: {values}; export again"
        offset += len(block)
        on_bytes(offset)
    hashes[tensor] = digest.hexdigest()
    return difference


def _manifest(table: Table, exported: ExportedModel, hashes: dict[str, str]) -> Check:
    if exported.manifest is None:
        return Check("manifest", "failed", "it is missing: another tool removed the metadata, export again")
    entry = exported.manifest.tables.get(table.name)
    if entry is None:
        known = ", ".join(exported.manifest.tables)
        return Check("manifest", "failed", f"no entry {table.name}, found {known}: give the model of this file")
    got = (entry.method, entry.shape, entry.padding_idx)
    expected = (table.packed.method, table.packed.shape, table.packed.padding_idx)
    if got != expected:
        detail = "its method, sizes or padding row differ from the model: give the model of this file"
        return Check("manifest", "failed", detail)
    for tensor, array in table.packed.tensors().items():
        for side, digest in (("the model", hash_of(array)), ("the file", hashes.get(tensor))):
            if digest is not None and digest != entry.sha256[tensor]:
                hashes_of = f"got SHA-256 {entry.sha256[tensor]}, expected {digest}, the hash of {side}"
                return Check("manifest", "failed", f"{tensor}: {hashes_of}")
    return Check("manifest", "passed", "sizes and SHA-256 as in the model and in the file")
