"""Comparison of the whole file with a new export of the program: nodes, bodies, metadata, and all stored numbers.

Outputs hide some differences: rounding loses the lowest bit of a weight, and a guard in a body may never run.
So numbers are compared bit for bit, a block at a time, and bodies node by node.

Other tools may change a file after the export. A file with the mark of a tool (`tool_marks`) is reported as changed,
and so is a file that the user declares changed on purpose. Neither report fails validation.
Bodies and tensors that keep their names are compared in these files too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.report.results.validation import Check, Status
from edge_embed.validation.declared_sizes import size_differences
from edge_embed.validation.expected_export import Port, Structure, Written, structure_of, written_by_export
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.node_differences import describe, title, unmatched
from edge_embed.validation.tool_marks import tool_marks

NODES, NUMBERS, BODIES, METADATA = (f"{what} as exported" for what in ("nodes", "numbers", "bodies", "metadata"))
ON_PURPOSE = (
    "export again; for an intended change by another tool, use --changed-after-export, or "
    "`changed_after_export = true` under [parity] of a budget"
)
_MOST_NAMED = 4


def compare_with_export(lowered: LoweredProgram, exported: ExportedModel, changed: bool) -> tuple[Check, ...]:
    """Compare a file with a new export of the program.

    Args:
        lowered: the program over packed tables.
        exported: the file, without a tokenizer in front.
        changed: whether the user declares that a tool changed the file after the export.
    """
    try:
        written = written_by_export(lowered, exported.proto)
    except BadInputError as error:
        return (Check(NODES, "not run", f"the model cannot be exported for comparison: {error}"),)
    return _Comparison(written, exported, changed).checks()


@dataclass(frozen=True)
class _Comparison:
    """A file and the export that it is compared with."""

    written: Written
    exported: ExportedModel
    changed: bool

    def checks(self) -> tuple[Check, ...]:
        """Return the checks of nodes, numbers, bodies and metadata."""
        found = structure_of(self.exported.proto)
        specs = {name: self.exported.spec(name) for name in self.written.tensors}
        differences = [*_structure(found, self.written.structure), *self._other_tensors()]
        marks = tool_marks(self.exported.proto, found, specs, self.written)
        return (
            self._nodes(differences, marks),
            self._numbers(specs, marks),
            _bodies(found, self.written.structure),
            self._metadata(marks),
        )

    def _nodes(self, differences: list[str], marks: str) -> Check:
        if not differences:
            return Check(NODES, "passed", f"all {len(self.written.structure.nodes)}, with inputs and attributes")
        return Check(NODES, *self._changed("; ".join(differences), marks))

    def _changed(self, difference: str, marks: str) -> tuple[Status, str]:
        """Return status and detail of a difference that a tool may have made."""
        if marks or self.changed:
            return "not run", f"changed after the export ({marks or 'on purpose'}): {difference}"
        return "failed", f"{difference}; {ON_PURPOSE}"

    def _other_tensors(self) -> Iterator[str]:
        known = self.written.tensors.keys() | self.written.table_tensors
        graph = self.exported.proto.graph
        stored = [tensor.name for tensor in graph.initializer]
        stored += [sparse.values.name for sparse in graph.sparse_initializer]
        if more := [name for name in stored if name not in known]:
            yield f"unexpected tensors: {some(more)}"

    def _numbers(self, specs: Mapping[str, TensorSpec | None], marks: str) -> Check:
        same, other = list[str](), list[str]()
        for name, stored in self.written.tensors.items():
            (same if specs[name] == stored.spec else other).append(name)
        wrong = [text for name in same if (text := self._difference(name))]
        if wrong:
            status: Status = "not run" if self.changed else "failed"
            return Check(NUMBERS, status, f"{some(wrong, '; ')}; {ON_PURPOSE}")
        total = sum(self.written.tensors[name].content.nbytes for name in same)
        detail = f"{len(same)} tensors beside the tables, {total:,} bytes identical"
        if not other:
            return Check(NUMBERS, "passed", detail)
        gone = [
            f"{name}: got {_words(specs[name])}, expected {_words(self.written.tensors[name].spec)}" for name in other
        ]
        status, text = self._changed(some(gone, "; "), marks)
        return Check(NUMBERS, status, f"{text}; {detail}")

    def _difference(self, name: str) -> str:
        """Return the place of the first difference of a tensor and the number of differences, or an empty string."""
        spec, content = self.written.tensors[name]
        expected = np.frombuffer(content, np.uint8)
        offset, first, count = 0, "", 0
        size = max(1, expected.nbytes // max(1, int(np.prod(spec.shape))))
        for block in self.exported.blocks(name):
            wanted = expected[offset : offset + len(block)]
            if len(wanted) < len(block):
                return f"{name}: got more bytes than its shape requires"
            differing = np.flatnonzero(np.frombuffer(block, np.uint8) != wanted)
            if differing.size and not first:
                at = offset + int(differing[0])
                first = f"{name}{_place(at // size, spec.shape)} (byte {at % size})"
                first += f": got 0x{block[at - offset]:02x}, expected 0x{wanted[at - offset]:02x}"
            count += np.unique((differing + offset) // size).size
            offset += len(block)
        if offset < expected.nbytes:
            return f"{name}: got {offset:,} bytes, expected {expected.nbytes:,}"
        return f"{first}, {count:,} number(s) differ" if first else ""

    def _metadata(self, marks: str) -> Check:
        found = {item.key: item.value for item in self.exported.proto.metadata_props}
        for key, value in self.written.metadata.items():
            if key not in found:
                return Check(METADATA, *self._changed(f"{key} is missing", marks))
            if found[key] != value:
                return Check(METADATA, "failed", f"{key}: {_text_difference(found[key], value)}; export again")
        return Check(METADATA, "passed", ", ".join(self.written.metadata))


def _structure(found: Structure, expected: Structure) -> Iterator[str]:
    ports = [
        f"{what}: got {_ports(got)}, expected {_ports(wanted)}"
        for what, got, wanted in (
            ("inputs", found.inputs, expected.inputs),
            ("outputs", found.outputs, expected.outputs),
        )
        if _ports(got) != _ports(wanted)
    ]
    yield from ports or size_differences(found, expected)
    for domain, version in expected.opsets.items():
        if found.opsets.get(domain) != version:
            yield f"operator set {domain or 'ai.onnx'}: got {found.opsets.get(domain)}, expected {version}"
    if found.ir_version != expected.ir_version:
        yield f"IR version: got {found.ir_version}, expected {expected.ir_version}"
    if functions := sorted(found.functions - expected.functions):
        yield f"unexpected functions: {some([f'{domain}.{name}' for domain, name in functions])}"
    more, fewer = unmatched(found.nodes, expected.nodes), unmatched(expected.nodes, found.nodes)
    if more or fewer:
        yield f"{len(found.nodes)} nodes, expected {len(expected.nodes)}: {describe(more, fewer)}"


def _ports(ports: Sequence[Port]) -> str:
    return ", ".join(f"{port.name} ({port.dtype}, rank {len(port.sizes)})" for port in ports) or "none"


def _bodies(found: Structure, expected: Structure) -> Check:
    """Compare the bodies of functions node by node, in order."""
    for name, wanted in expected.bodies.items():
        body = found.bodies.get(name)
        if body is None:
            return Check(BODIES, "failed", f"{name} is missing: another tool removed it, export again")
        for what in ("input", "output", "attribute", "opset_import", "attribute_proto"):
            if list(getattr(body, what)) != list(getattr(wanted, what)):
                return Check(BODIES, "failed", f"{name}: {what}s differ from an export; export again")
        for at, (node, other) in enumerate(zip(body.node, wanted.node, strict=False)):
            if more := unmatched([node], [other]):
                return Check(BODIES, "failed", f"{name}, node {at}: {describe(more, [other])}; export again")
        if len(body.node) != len(wanted.node):
            longer = max(body.node, wanted.node, key=len)
            extra = title(longer[min(len(body.node), len(wanted.node))])
            got = f"got {len(body.node)} nodes, expected {len(wanted.node)}"
            return Check(BODIES, "failed", f"{name}: {got}, from {extra} on; export again")
    count = sum(len(body.node) for body in expected.bodies.values())
    return Check(BODIES, "passed", f"{', '.join(expected.bodies)}: {count} nodes")


def _place(index: int, shape: tuple[int, ...]) -> str:
    return str([int(at) for at in np.unravel_index(index, shape)]) if shape else ""


def _words(spec: TensorSpec | None) -> str:
    return "none" if spec is None else f"{spec.dtype} {list(spec.shape)}"


def some(names: list[str], separator: str = ", ") -> str:
    """Join the first few names and the number of the others."""
    more = f"{separator}and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return separator.join(names[:_MOST_NAMED]) + more


def _text_difference(got: str, expected: str) -> str:
    at = next(
        (at for at, pair in enumerate(zip(got, expected, strict=False)) if pair[0] != pair[1]),
        len(min(got, expected, key=len)),
    )
    return f"differs at character {at:,}: got {got[at : at + 20]!r}, expected {expected[at : at + 20]!r}"
