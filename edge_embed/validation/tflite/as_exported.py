"""Comparison of a whole TFLite file with a new export of the program: operators, tensors, contents and metadata.

The program is exported again into a temporary folder, with the layouts and the sizes of the file. Contents are compared
in the mapped files, without copies.
"""

import mmap
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.exporters.tflite.export import write_program
from edge_embed.exporters.tflite.flatbuffer import MALFORMED, load_schema, operator_names, type_names
from edge_embed.exporters.tflite.table_uses import Layout
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import Sizes
from edge_embed.report.results.validation import Check, Status
from edge_embed.validation.as_exported import METADATA, NODES, NUMBERS, ON_PURPOSE, some
from edge_embed.validation.tflite.plain_values import plain

Array = NDArray[np.uint8]


def compare_with_export(
    lowered: LoweredProgram, path: Path, layouts: Mapping[str, Layout], fixed: list[Sizes], changed: bool
) -> tuple[Check, ...]:
    """Compare a file with a new export of the program.

    Args:
        lowered: the program over packed tables.
        path: the file, which was read before.
        layouts: layout of each table in the file.
        fixed: sizes of the dynamic dimensions in each signature; empty if they are dynamic in the file too.
        changed: whether the user declares that a tool changed the file after the export.

    Raises:
        BadInputError: the file is damaged.
    """
    if len(layouts) < len(lowered.tables):
        return ()  # the check of the layout fails
    sizes = {name: list(dict.fromkeys(each[name] for each in fixed)) for name in (fixed[0] if fixed else {})}
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder) / "expected.tflite"
        try:
            write_program(lowered, layouts, sizes, expected)
        except EdgeEmbedError as error:  # litert-torch is needed to export a model, but not to run its file
            return (Check(NODES, "not run", f"the model cannot be exported for comparison: {error}"),)
        try:
            return _Comparison(_Parts(path), _Parts(expected), changed).checks()
        except MALFORMED as error:
            raise BadInputError(f"{path}: is damaged or not a TFLite model: {error}; export it again") from error


class _Parts:
    """The parts of a file, with the contents of its tensors in the mapped file."""

    def __init__(self, path: Path) -> None:
        schema = load_schema()
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._model = model = schema.Model.GetRootAs(content, 0)
        codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
        self._codes = [
            (max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), code.Version(), code.CustomCode()) for code in codes
        ]
        self.graphs = [schema.SubGraphT.InitFromObj(model.Subgraphs(at)) for at in range(model.SubgraphsLength())]
        signatures = [model.SignatureDefs(at) for at in range(model.SignatureDefsLength())]
        self.signatures = [plain(schema.SignatureDefT.InitFromObj(each)) for each in signatures]

    def operators(self, graph: Any) -> list[dict[str, Any]]:
        """Return kind, options and tensors of every operator."""
        names, found = [tensor.name.decode() for tensor in graph.tensors or ()], []
        for operator in () if graph.operators is None else graph.operators:
            number, version, custom = self._codes[operator.opcodeIndex]
            values = plain(operator)
            del values["opcodeIndex"]
            values["kind"] = (custom or b"").decode() or operator_names().get(number, str(number))
            values["version"] = version
            for side in ("inputs", "outputs"):
                values[side] = [names[at] if at >= 0 else "" for at in values[side] or ()]
            found.append(values)
        return found

    def content(self, number: int) -> Array:
        """Return the contents of a buffer, which may be empty."""
        buffer = self._model.Buffers(number)
        content: Array = buffer.DataAsNumpy() if buffer.DataLength() else np.empty(0, np.uint8)
        return content

    def metadata(self) -> dict[str, Array]:
        """Return the metadata by name."""
        entries = [self._model.Metadata(at) for at in range(self._model.MetadataLength())]
        return {(entry.Name() or b"").decode(): self.content(entry.Buffer()) for entry in entries}


class _Comparison:
    """A file and the export that it is compared with."""

    def __init__(self, found: _Parts, expected: _Parts, changed: bool) -> None:
        self._found, self._expected, self._changed = found, expected, changed

    def checks(self) -> tuple[Check, ...]:
        """Return the checks of structure, numbers and metadata."""
        structure, marks = list(self._structure()), self._marks()
        count = sum(len(self._expected.operators(graph)) for graph in self._expected.graphs)
        nodes = Check(NODES, "passed", f"all {count} operators, with tensors and options")
        if structure:
            return (Check(NODES, *self._outcome(some(structure, "; "), marks)), *self._contents(marks), self._texts())
        return (nodes, *self._contents(marks), self._texts())

    def _outcome(self, difference: str, marks: str) -> tuple[Status, str]:
        if marks or self._changed:
            return "not run", f"changed after the export ({marks or 'on purpose'}): {difference}"
        return "failed", f"{difference}; {ON_PURPOSE}"

    def _structure(self) -> Iterator[str]:
        found, expected = self._found, self._expected
        if len(found.graphs) != len(expected.graphs):
            yield f"got {len(found.graphs)} subgraphs, expected {len(expected.graphs)}"
        if found.signatures != expected.signatures:
            yield "the signatures differ from an export"
        for graph, wanted in zip(found.graphs, expected.graphs, strict=False):
            yield from _tensors(graph, wanted)
            for what in ("inputs", "outputs"):
                got, other = ([_name(each, at) for at in getattr(each, what)] for each in (graph, wanted))
                if got != other:
                    yield f"{what}: got {', '.join(got)}, expected {', '.join(other)}"
            yield from _operators(found.operators(graph), expected.operators(wanted))

    def _marks(self) -> str:
        """Return the change that a tool made, in words, or an empty string without a mark."""
        quantised = [
            (tensor.name or b"").decode()
            for tensor, wanted, _ in self._pairs()
            if tensor.type != wanted.type and tensor.quantization is not None and tensor.quantization.scale is not None
        ]
        return f"quantised: {some(quantised)}" if quantised else ""

    def _pairs(self) -> Iterator[tuple[Any, Any, str]]:
        """Yield the tensors that both files have under one name."""
        for graph, wanted in zip(self._found.graphs, self._expected.graphs, strict=False):
            others = {tensor.name: tensor for tensor in wanted.tensors or ()}
            for tensor in graph.tensors or ():
                if tensor.name in others:
                    yield tensor, others[tensor.name], tensor.name.decode()

    def _contents(self, marks: str) -> Iterator[Check]:
        wrong, total, count = [], 0, 0
        for tensor, wanted, name in self._pairs():
            if tensor.type != wanted.type:
                continue  # reported with the structure
            got, expected = self._found.content(tensor.buffer), self._expected.content(wanted.buffer)
            if text := _difference(got, expected):
                wrong.append(f"{name}: {text}")
            count, total = count + bool(expected.size), total + expected.nbytes
        if not wrong:
            yield Check(NUMBERS, "passed", f"{count} tensors, {total:,} bytes identical")
            return
        status: Status = "not run" if self._changed else "failed"
        yield Check(NUMBERS, status, f"{some(wrong, '; ')}; {ON_PURPOSE}")

    def _texts(self) -> Check:
        found = self._found.metadata()
        for name, expected in self._expected.metadata().items():
            if name not in found:
                return Check(METADATA, "failed", f"{name} is missing: another tool removed it, export again")
            if text := _difference(found[name], expected):
                return Check(METADATA, "failed", f"{name}: {text}; export again")
        return Check(METADATA, "passed", ", ".join(self._expected.metadata()))


def _tensors(graph: Any, wanted: Any) -> Iterator[str]:
    found, expected = graph.tensors or [], wanted.tensors or []
    if len(found) != len(expected):
        yield f"got {len(found)} tensors, expected {len(expected)}"
    for tensor, other in zip(found, expected, strict=False):
        got, needed = plain(tensor), plain(other)
        for side in (got, needed):
            del side["buffer"]  # a number without meaning; contents are compared
            side["type"] = type_names().get(side["type"], side["type"])
        for key in needed:
            if got[key] != needed[key]:
                yield f"tensor {other.name.decode()}: {key}: got {got[key]!r:.80}, expected {needed[key]!r:.80}"
                break


def _operators(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Iterator[str]:
    if len(found) != len(expected):
        yield f"got {len(found)} operators, expected {len(expected)}"
    for at, (got, wanted) in enumerate(zip(found, expected, strict=False)):
        for key in wanted:
            if got[key] != wanted[key]:
                name = f"operator {at}, {wanted['kind']} -> {', '.join(wanted['outputs'])}"
                yield f"{name}: {key}: got {got[key]!r:.80}, expected {wanted[key]!r:.80}"
                break


def _difference(got: Array, expected: Array) -> str:
    """Return the first difference of contents and the number of differences, or an empty string."""
    if got.size != expected.size:
        return f"got {got.size:,} bytes, expected {expected.size:,}"
    if np.array_equal(got, expected):
        return ""
    places = np.flatnonzero(got != expected)
    at = int(places[0])
    return f"byte {at:,}: got 0x{got[at]:02x}, expected 0x{expected[at]:02x}, {places.size:,} byte(s) differ"


def _name(graph: Any, at: int) -> str:
    return str((graph.tensors[at].name or b"").decode())
