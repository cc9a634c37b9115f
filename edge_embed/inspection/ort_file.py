"""Model in ORT format, the flatbuffer that ONNX Runtime writes for small builds: read with its own schema."""

import hashlib
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.names import DOMAIN, MANIFEST_KEY
from edge_embed.input_file import read_whole
from edge_embed.inspection.follow_up import NO_NODES
from edge_embed.inspection.hashing import HashCheck
from edge_embed.inspection.report import FileReport, OnnxInfo, OperatorInfo, PortInfo, TableInfo, table_info
from edge_embed.packed.manifest import FORMAT_VERSION, TableEntry, parse_manifest
from edge_embed.packed.stored_names import stored_names

# Offsets in a cut or changed file can point anywhere.
_MALFORMED = (struct.error, IndexError, AttributeError, TypeError, ValueError, OverflowError)
_MOST_BYTES = 2**31 - 1  # offsets are signed 32-bit numbers
_NOTE = (
    "ORT format, which only ONNX Runtime reads: its conversion decided whether kernels or portable bodies run. "
    "validate requires the .onnx file"
)
_NOT_VERIFIED = "only tables were compared: ONNX Runtime rewrites nodes and other weights, so they have no stored hash"
_SLOW = f"{NO_NODES}. It was converted without the library: pass --custom_op_library to convert_onnx_models_to_ort"
_BOUND = "no portable body, the file needs the operator library. It was converted with it; the .onnx file has both"


def inspect_ort(path: Path, verify: bool) -> FileReport:
    """Report a model in ORT format.

    Raises:
        BadInputError: It is damaged.
    """
    with located(str(path)):
        content = read_whole(path, _MOST_BYTES, "a model in ORT format")
    try:
        return _report(path, content, InferenceSession.GetRootAs(content, 0).Model(), verify)
    except _MALFORMED as error:  # BadInputError is a ValueError
        raise BadInputError(f"{path}: damaged or not a model in ORT format: {error}; convert it again") from error


def _report(path: Path, content: bytes, model: Any, verify: bool) -> FileReport:
    graph = model.Graph()
    nodes = [graph.Nodes(at) for at in range(graph.NodesLength())]
    counts = Counter(_text(node.OpType()) for node in nodes if _text(node.Domain()) == DOMAIN)
    opsets = [model.OpsetImport(at) for at in range(model.OpsetImportLength())]
    entries = _entries(model, len(content))
    tensors = [graph.Initializers(at) for at in range(graph.InitializersLength())]
    stored = {_text(tensor.Name()): tensor for tensor in tensors}
    differences: list[str] = []
    if verify and not entries:
        differences.append("manifest is missing, so its tables cannot be compared with the export")
    return FileReport(
        path=str(path),
        kind="ort",
        file_bytes=len(content),
        total_bytes=len(content),
        verified=verify,
        tables=[_table(name, entry, stored, verify, differences) for name, entry in entries.items()],
        inputs=[PortInfo(_text(graph.Inputs(at)), "", None) for at in range(graph.InputsLength())],
        outputs=[PortInfo(_text(graph.Outputs(at)), "", None) for at in range(graph.OutputsLength())],
        onnx=OnnxInfo(
            model.IrVersion(),
            {_text(item.Domain()) or "ai.onnx": item.Version() for item in opsets},
            FORMAT_VERSION if counts or entries else None,
            [OperatorInfo(name, count, body=False) for name, count in sorted(counts.items())],
            [],
        ),
        notes=[_NOTE, *([_NOT_VERIFIED] if verify else [])],
        warnings=[f"{', '.join(sorted(counts))}: {_BOUND}"] if counts else [_SLOW] if entries else [],
        differences=differences,
    )


def _entries(model: Any, file_bytes: int) -> Mapping[str, TableEntry]:
    """Return the entries of the manifest, which is in the metadata as in the .onnx file."""
    for at in range(model.MetadataPropsLength()):
        item = model.MetadataProps(at)
        if _text(item.Key()) == MANIFEST_KEY:
            return parse_manifest(_text(item.Value()), file_bytes).tables
    return {}


def _table(name: str, entry: TableEntry, stored: Mapping[str, Any], verify: bool, differences: list[str]) -> TableInfo:
    """Return one table of the manifest; its tensors are hashed if verification is requested."""
    check = HashCheck(name, entry.sha256)
    names = stored_names(name, check.expected)
    found = {tensor: stored[names[tensor]] for tensor in names if names[tensor] in stored}
    for tensor in found if verify else ():
        check.compare(tensor, hashlib.sha256(found[tensor].RawDataAsNumpy()).hexdigest())
    if verify and len(found) < len(names):
        check.differences.append(f"table {name!r:.80}: cannot be compared: a tool replaced one of its tensors")
    differences += check.differences
    nbytes = sum(tensor.RawDataLength() for tensor in found.values())
    return table_info(name, entry.method, "packed", entry.shape, entry.padding_idx, nbytes, check.status)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
