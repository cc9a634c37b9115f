"""The sizes of a TFLite file: on disk, zipped, dense-equivalent, and which bytes are what."""

from collections.abc import Iterable
from pathlib import Path

from edge_embed.exporters.onnx.names import MANIFEST_KEY, VOCABULARY_KEY
from edge_embed.inspection.tflite_file import TfliteModel
from edge_embed.report.parts import FILE_PARTS, SizePart
from edge_embed.report.results import SizeResult
from edge_embed.validation.size import deflated_bytes, dense_bytes
from edge_embed.validation.tables import Table


def measure_sizes(path: Path, model: TfliteModel, tables: Iterable[Table]) -> SizeResult:
    """Measure a file."""
    tables, on_disk = list(tables), path.stat().st_size
    parts = _parts(model, tables, on_disk)
    packed, stored = sum(table.packed.nbytes for table in tables), sum(part.bytes for part in parts if part.table)
    return SizeResult(
        files={path.name: on_disk},
        dense_equivalent=on_disk - stored + sum(map(dense_bytes, tables)),
        on_disk=on_disk,
        zipped=deflated_bytes(path),
        resident=None,
        resident_reason="not measured for TFLite files",
        initializer_bytes=sum(content.nbytes for content in model.tensors.values()),
        packed_bytes=packed,
        session_bytes=0,
        loaded=(),
        parts=parts,
        library=None,
    )


def _parts(model: TfliteModel, tables: list[Table], on_disk: int) -> tuple[SizePart, ...]:
    names = {table.name for table in tables}
    found, dense = list[SizePart](), 0
    for tensor, content in model.tensors.items():
        table, _, part = tensor.rpartition(".")
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
