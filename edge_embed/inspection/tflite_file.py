"""TFLite model: read with the schema of the package ai-edge-litert, without running it."""

import hashlib
import json
import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.tflite.attached_contents import content_behind, open_content
from edge_embed.compression.tflite.foreign_file import find_dense
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY, METADATA_KEY, VOCABULARY_KEY
from edge_embed.exporters.tflite.flatbuffer import MALFORMED, load_schema, operator_names, type_names
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.inspection.hashing import HashCheck
from edge_embed.inspection.report import DenseInfo, FileReport, PortInfo, TableInfo, TfliteInfo, table_info
from edge_embed.packed.manifest import TableEntry, parse_manifest

# Many offsets may point to the same bytes. Small files share names and sizes; this limits how often.
_SHARED = 4
_NO_TABLE = "no compressed table of edge-embed: a model made by another tool, or with sparse activations alone"


@dataclass(frozen=True)
class TfliteModel:
    """Content of a file.

    Attributes:
        operators: number of operators of each kind, by their names in the schema.
        tensors: content of the constants, by name. Constants that share content share one array; two different ones
            with the same name are left out.
        inputs: name, type and sizes, None for dynamic ones.
        outputs: as the inputs.
        metadata: texts by name.
        signatures: inputs by the name of the signature; ``inputs`` and ``outputs`` are those of the first signature.
    """

    operators: Mapping[str, int]
    tensors: Mapping[str, NDArray[np.uint8]]
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    metadata: Mapping[str, str]
    signatures: Mapping[str, tuple[PortInfo, ...]]
    _digests: dict[int, str] = field(default_factory=dict, init=False, repr=False)

    def sha256(self, tensor: str) -> str:
        """Return the SHA-256 of a constant in hex; it is computed once for all that share it."""
        content = self.tensors[tensor]
        if id(content) not in self._digests:
            self._digests[id(content)] = hashlib.sha256(content.data).hexdigest()
        return self._digests[id(content)]


def read_tflite(path: Path) -> TfliteModel:
    """Read a file.

    Raises:
        BadInputError: It is missing or damaged.
        EdgeEmbedError: The package ai-edge-litert is not installed.
    """
    if not path.is_file():
        found = "is not a regular file" if path.exists() else "there is no such file"
        raise BadInputError(f"{path}: {found}, expected a TFLite model: check the path")
    try:
        return _Reader(open_content(path)).read()
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MALFORMED as error:
        raise BadInputError(f"{path}: is damaged or not a TFLite model: {error}; export it again") from error


def inspect_tflite(path: Path, verify: bool) -> FileReport:
    """Report a TFLite model.

    Raises:
        BadInputError: It is damaged.
        EdgeEmbedError: The package ai-edge-litert is not installed.
    """
    model, size = read_tflite(path), path.stat().st_size
    differences: list[str] = []
    try:
        entries = parse_manifest(model.metadata[MANIFEST_KEY], size).tables if MANIFEST_KEY in model.metadata else {}
        layouts = json.loads(model.metadata.get(LAYOUTS_KEY, "{}"))
        names = {name: str(layouts[name]["layout"]) for name in entries}
        tables = [_table(name, entry, layouts[name], model, verify, differences) for name, entry in entries.items()]
        vocabulary = model.metadata.get(VOCABULARY_KEY)
        num_tokens = None if vocabulary is None else len(json.loads(vocabulary))
        strings = {str(key): str(value) for key, value in json.loads(model.metadata.get(METADATA_KEY, "{}")).items()}
    except MALFORMED as error:
        raise BadInputError(f"{path}: its metadata is damaged: {error!r:.200}; export it again") from error
    dense, left = _dense(path, {tensor for layout in layouts.values() for tensor in layout["sha256"]})
    if verify and not entries:
        differences.append("manifest is missing, so its tables cannot be compared with the export")
    return FileReport(
        path=str(path),
        kind="tflite",
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        tables=tables,
        dense=dense,
        inputs=list(model.inputs),
        outputs=list(model.outputs),
        vocabulary_size=num_tokens,
        metadata=strings,
        tflite=TfliteInfo(model.operators, names, {name: list(ports) for name, ports in model.signatures.items()}),
        notes=[*([] if entries else [_NO_TABLE]), *left],
        differences=differences,
    )


def _dense(path: Path, ours: Set[str]) -> tuple[list[DenseInfo], list[str]]:
    """Return dense tables and output layers without the tensors of our tables, and notes on the output layers."""
    tables, outputs = find_dense(path)
    layers = [layer for layer in outputs if layer.name not in ours]
    dense = [
        *(
            DenseInfo(one.name, *one.shape, one.kind, one.held_bytes)
            for name, one in tables.items()
            if name not in ours
        ),
        *(DenseInfo(layer.name, *layer.shape, layer.kind, layer.held_bytes) for layer in layers),
    ]
    what = "is an output layer without lookups: compress leaves it in a TFLite file"
    return dense, [f"{layer.name} {what}" for layer in layers]


def _table(
    name: str,
    entry: TableEntry,
    layout: Mapping[str, Any],
    model: TfliteModel,
    verify: bool,
    differences: list[str],
) -> TableInfo:
    """Return one table of the manifest; its tensors are hashed if verification is requested."""
    hashes = {str(tensor): str(digest) for tensor, digest in layout["sha256"].items()}
    check = HashCheck(name, hashes)
    found = {tensor: model.tensors[tensor] for tensor in hashes if tensor in model.tensors}
    for tensor in found if verify else ():
        check.compare(tensor, model.sha256(tensor))
    if verify and len(found) < len(hashes):
        check.differences.append(f"table {name!r:.80}: cannot be compared: a tool replaced one of its tensors")
    differences += check.differences
    nbytes = sum(content.nbytes for content in found.values())
    return table_info(name, entry.method, "packed", entry.shape, entry.padding_idx, nbytes, check.status)


class _Reader:
    """Parser of a file; it raises one of `MALFORMED` for an invalid one."""

    def __init__(self, content: mmap.mmap) -> None:
        self._file = content
        self._model = load_schema().Model.GetRootAs(content, 0)
        self._graphs = [self._model.Subgraphs(at) for at in range(self._model.SubgraphsLength())]
        self._buffers: dict[int, NDArray[np.uint8]] = {}
        self._left = _SHARED * len(content)

    def read(self) -> TfliteModel:
        model = self._model
        signatures = [model.SignatureDefs(at) for at in range(model.SignatureDefsLength())]
        first = next((signature for signature in signatures if signature.SubgraphIndex() == 0), None)
        return TfliteModel(
            self._operators(),
            self._constants(),
            self._inputs(0, first),
            self._outputs(0, first),
            dict(self._texts()),
            {self._text(each.SignatureKey()): self._inputs(each.SubgraphIndex(), each) for each in signatures},
        )

    def _operators(self) -> Mapping[str, int]:
        model = self._model
        codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
        numbers = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]
        used = (graph.Operators(at).OpcodeIndex() for graph in self._graphs for at in range(graph.OperatorsLength()))
        return dict(sorted(Counter(operator_names()[numbers[index]] for index in used).items()))

    def _constants(self) -> Mapping[str, NDArray[np.uint8]]:
        found, ambiguous = dict[str, NDArray[np.uint8]](), set[str]()
        for graph in self._graphs:
            for at in range(graph.TensorsLength()):
                tensor = graph.Tensors(at)
                name, content = self._text(tensor.Name()), self._content(tensor.Buffer())
                if content.nbytes and found.setdefault(name, content) is not content:
                    ambiguous.add(name)
        return {name: content for name, content in found.items() if name not in ambiguous}

    def _inputs(self, number: int, signature: Any) -> tuple[PortInfo, ...]:
        graph = self._graphs[number]
        named = [signature.Inputs(at) for at in range(signature.InputsLength())] if signature else []
        return tuple(self._ports(graph, [graph.Inputs(at) for at in range(graph.InputsLength())], named))

    def _outputs(self, number: int, signature: Any) -> tuple[PortInfo, ...]:
        graph = self._graphs[number]
        named = [signature.Outputs(at) for at in range(signature.OutputsLength())] if signature else []
        return tuple(self._ports(graph, [graph.Outputs(at) for at in range(graph.OutputsLength())], named))

    def _ports(self, graph: Any, indices: list[int], named: Sequence[Any]) -> Iterator[PortInfo]:
        names = {entry.TensorIndex(): self._text(entry.Name()) for entry in named}
        for index in indices:
            tensor = graph.Tensors(index)
            dynamic = not tensor.ShapeSignatureIsNone()
            self._take(4 * (tensor.ShapeSignatureLength() if dynamic else tensor.ShapeLength()))
            sizes = tensor.ShapeSignatureAsNumpy() if dynamic else tensor.ShapeAsNumpy() if tensor.ShapeLength() else []
            shape: list[int | str | None] = [None if size < 0 else int(size) for size in sizes]
            yield PortInfo(names.get(index) or self._text(tensor.Name()), type_names()[tensor.Type()], shape)

    def _texts(self) -> Iterator[tuple[str, str]]:
        for at in range(self._model.MetadataLength()):
            entry = self._model.Metadata(at)
            name = self._text(entry.Name())
            if name.startswith("edge_embed."):
                yield name, self._content(entry.Buffer()).tobytes().decode()

    def _content(self, number: int) -> NDArray[np.uint8]:
        if number not in self._buffers:
            if number >= self._model.BuffersLength():
                raise ValueError(f"got buffer {number}, expected less than {self._model.BuffersLength()}")
            buffer = self._model.Buffers(number)
            behind = content_behind(self._file, buffer)
            self._take(_SHARED * (buffer.DataLength() if behind is None else behind.nbytes))
            inside = buffer.DataAsNumpy() if buffer.DataLength() else np.empty(0, np.uint8)
            self._buffers[number] = inside if behind is None else behind
        return self._buffers[number]

    def _text(self, value: bytes | None) -> str:
        self._take(len(value or b""))
        return (value or b"").decode()

    def _take(self, nbytes: int) -> None:
        """Count bytes that are about to be held against the limit."""
        self._left -= nbytes
        if self._left < 0:
            raise ValueError("its parts overlap")
