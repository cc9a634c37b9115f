"""A TFLite model: read with the schema of the package ai-edge-litert, nothing of it runs."""

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY, METADATA_KEY, VOCABULARY_KEY
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.inspection.hashing import HashCheck
from edge_embed.inspection.report import FileReport, PortInfo, TableInfo, TfliteInfo, table_info
from edge_embed.packed.manifest import TableEntry, parse_manifest

# Offsets of a file that was cut or changed can lead anywhere.
_MALFORMED = (struct.error, IndexError, AttributeError, TypeError, KeyError, ValueError, OverflowError)


@dataclass(frozen=True)
class TfliteModel:
    """What is in a file.

    Attributes:
        operators: how many there are of each kind, by their names in the schema.
        tensors: content of the constants, by name.
        inputs: name, type and sizes, None for dynamic ones.
        outputs: as the inputs.
        metadata: texts by name.
        signatures: inputs by the name of the signature; what is said above of inputs and outputs is that of the first.
    """

    operators: Mapping[str, int]
    tensors: Mapping[str, NDArray[np.uint8]]
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    metadata: Mapping[str, str]
    signatures: Mapping[str, tuple[PortInfo, ...]]


def read_tflite(path: Path) -> TfliteModel:
    """Read a file.

    Raises:
        BadInputError: It is missing or damaged.
        EdgeEmbedError: The package ai-edge-litert is not installed.
    """
    if not path.is_file():
        raise BadInputError(f"{path}: is no regular file, expected a TFLite model: check the path")
    schema, content = load_schema(), path.read_bytes()
    try:
        model = schema.Model.GetRootAs(content, 0)
        graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
        signatures = [model.SignatureDefs(at) for at in range(model.SignatureDefsLength())]
        first = next((signature for signature in signatures if signature.SubgraphIndex() == 0), None)
        return TfliteModel(
            _operators(schema, model, graphs),
            dict(_constants(model, graphs)),
            _inputs(schema, graphs[0], first),
            _outputs(schema, graphs[0], first),
            dict(_texts(model)),
            {_text(each.SignatureKey()): _inputs(schema, graphs[each.SubgraphIndex()], each) for each in signatures},
        )
    except _MALFORMED as error:
        raise BadInputError(f"{path}: damaged or no TFLite model: {error}; export it again") from error


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
        tables = [_table(name, entry, layouts[name], model, verify, differences) for name, entry in entries.items()]
        vocabulary = model.metadata.get(VOCABULARY_KEY)
        num_tokens = None if vocabulary is None else len(json.loads(vocabulary))
        strings = {str(key): str(value) for key, value in json.loads(model.metadata.get(METADATA_KEY, "{}")).items()}
    except _MALFORMED as error:
        raise BadInputError(f"{path}: its metadata are damaged: {error!r:.200}; export it again") from error
    if verify and not entries:
        differences.append("holds no manifest, so nothing shows that its tables are what was exported")
    return FileReport(
        path=str(path),
        kind="tflite",
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        tables=tables,
        inputs=list(model.inputs),
        outputs=list(model.outputs),
        vocabulary_size=num_tokens,
        metadata=strings,
        tflite=TfliteInfo(
            model.operators,
            {name: str(layouts[name]["layout"]) for name in entries},
            {name: list(ports) for name, ports in model.signatures.items()},
        ),
        notes=[] if entries else ["no compressed table of edge-embed: a model made by another tool"],
        differences=differences,
    )


def _table(
    name: str,
    entry: TableEntry,
    layout: Mapping[str, Any],
    model: TfliteModel,
    verify: bool,
    differences: list[str],
) -> TableInfo:
    """One table of the manifest; its tensors are hashed if that is asked for."""
    hashes = {str(tensor): str(digest) for tensor, digest in layout["sha256"].items()}
    check = HashCheck(name, hashes)
    found = {tensor: model.tensors[tensor] for tensor in hashes if tensor in model.tensors}
    for tensor, content in found.items() if verify else ():
        check.compare(tensor, hashlib.sha256(content.data).hexdigest())
    if verify and len(found) < len(hashes):
        check.differences.append(f"table {name!r:.80}: cannot be compared: a tool replaced one of its tensors")
    differences += check.differences
    nbytes = sum(content.nbytes for content in found.values())
    return table_info(name, entry.method, "packed", entry.shape, entry.padding_idx, nbytes, check.status)


def _operators(schema: Any, model: Any, graphs: Sequence[Any]) -> Mapping[str, int]:
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
    numbers = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]
    used = (graph.Operators(at).OpcodeIndex() for graph in graphs for at in range(graph.OperatorsLength()))
    return dict(sorted(Counter(names[numbers[index]] for index in used).items()))


def _constants(model: Any, graphs: Sequence[Any]) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Once where several tensors share a content."""
    seen = set()
    for graph in graphs:
        for at in range(graph.TensorsLength()):
            tensor = graph.Tensors(at)
            buffer = model.Buffers(tensor.Buffer())
            if buffer.DataLength() and tensor.Buffer() not in seen:
                seen.add(tensor.Buffer())
                yield _text(tensor.Name()), buffer.DataAsNumpy()


def _inputs(schema: Any, graph: Any, signature: Any) -> tuple[PortInfo, ...]:
    named = [signature.Inputs(at) for at in range(signature.InputsLength())] if signature else []
    return tuple(_ports(schema, graph, [graph.Inputs(at) for at in range(graph.InputsLength())], named))


def _outputs(schema: Any, graph: Any, signature: Any) -> tuple[PortInfo, ...]:
    named = [signature.Outputs(at) for at in range(signature.OutputsLength())] if signature else []
    return tuple(_ports(schema, graph, [graph.Outputs(at) for at in range(graph.OutputsLength())], named))


def _ports(schema: Any, graph: Any, indices: list[int], named: Sequence[Any]) -> Iterator[PortInfo]:
    kinds = {number: name.lower() for name, number in vars(schema.TensorType).items() if not name.startswith("_")}
    names = {entry.TensorIndex(): _text(entry.Name()) for entry in named}
    for index in indices:
        tensor = graph.Tensors(index)
        dynamic = not tensor.ShapeSignatureIsNone()
        sizes = tensor.ShapeSignatureAsNumpy() if dynamic else tensor.ShapeAsNumpy() if tensor.ShapeLength() else []
        shape: list[int | str | None] = [None if size < 0 else int(size) for size in sizes]
        yield PortInfo(names.get(index, _text(tensor.Name())), kinds[tensor.Type()], shape)


def _texts(model: Any) -> Iterator[tuple[str, str]]:
    for at in range(model.MetadataLength()):
        entry = model.Metadata(at)
        buffer = model.Buffers(entry.Buffer())
        if _text(entry.Name()).startswith("edge_embed."):
            yield _text(entry.Name()), buffer.DataAsNumpy().tobytes().decode()


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
