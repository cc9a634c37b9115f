"""The sizes of a TFLite file: on disk, zipped, dense-equivalent, and by part."""

from collections.abc import Iterable
from pathlib import Path

from edge_embed.errors import EdgeEmbedError
from edge_embed.exporters.onnx.names import MANIFEST_KEY, VOCABULARY_KEY
from edge_embed.inspection.tflite_file import TfliteModel
from edge_embed.packed.stored_names import table_and_tensor
from edge_embed.report.results.byte_parts import FILE_PARTS, SizePart
from edge_embed.report.results.validation import SizeResult
from edge_embed.runtime.library import get_delegate_path, get_library_path
from edge_embed.validation.sizes import deflated_bytes, dense_bytes
from edge_embed.validation.tables import Table


def measure_sizes(path: Path, model: TfliteModel, tables: Iterable[Table]) -> SizeResult:
    """Measure the sizes of a file."""
    tables, on_disk = list(tables), path.stat().st_size
    parts = split(model, tables, on_disk)
    packed, stored = sum(table.packed.nbytes for table in tables), sum(part.bytes for part in parts if part.table)
    return SizeResult(
        files={path.name: on_disk},
        dense_equivalent=on_disk - stored + sum(map(dense_bytes, tables)),
        on_disk=on_disk,
        zipped=deflated_bytes(path),
        resident=None,
        resident_reason="it is measured for sessions of ONNX Runtime, not for TFLite files",
        initializer_bytes=sum(content.nbytes for content in model.tensors.values()),
        packed_bytes=packed,
        session_bytes=0,
        loaded=(),
        parts=parts,
        library=_library_bytes(),
    )


def _library_bytes() -> int | None:
    """Return the bytes of the delegate and of the operator library that it calls, or None."""
    try:
        return get_delegate_path().stat().st_size + get_library_path().stat().st_size
    except EdgeEmbedError:
        return None


def split(model: TfliteModel, tables: Iterable[Table], on_disk: int) -> tuple[SizePart, ...]:
    """Return the sizes of the parts of a file; they sum to its size."""
    names = {table.name for table in tables}
    found, dense = list[SizePart](), 0
    once = {id(content): (tensor, content) for tensor, content in model.tensors.items()}  # tensors may share a buffer
    for tensor, content in once.values():
        table, part = table_and_tensor(tensor)
        if table in names:
            found.append(SizePart(table, part, content.nbytes))
        else:
            dense += content.nbytes
    texts = {key: len(text.encode()) for key, text in model.metadata.items()}
    others = dict.fromkeys(FILE_PARTS, 0)
    others |= {"dense": dense, "manifest": texts.pop(MANIFEST_KEY, 0), "vocabulary": texts.pop(VOCABULARY_KEY, 0)}
    others["metadata"] = sum(texts.values())
    others["graph"] = on_disk - sum(part.bytes for part in found) - sum(others.values())
    return (*found, *(SizePart(None, name, nbytes) for name, nbytes in others.items()))
