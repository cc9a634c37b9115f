"""The four sizes of a model: dense-equivalent, on disk, zipped, resident after loading."""

import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from edge_embed.exporters.onnx.names import MEMORY_BYTES
from edge_embed.exporters.onnx.session_memory.method import session_bytes as node_session_bytes
from edge_embed.report.results.session_growth import SessionGrowth
from edge_embed.report.results.validation import LoadedSize, SizeResult
from edge_embed.runtime.library import get_library_path
from edge_embed.targets.target import NotRunError
from edge_embed.validation.byte_parts import file_parts
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.fresh_process import measure_fresh
from edge_embed.validation.paths import CUSTOM, PORTABLE, missing_library
from edge_embed.validation.tables import Table

_BLOCK_BYTES = 1 << 20


def measure_sizes(
    exported: ExportedModel,
    shipped: tuple[Path, ...],
    tables: list[Table],
    feeds: dict[str, NDArray[Any]],
    loaded: tuple[LoadedSize, ...],
    on_step: Callable[[], None],
) -> SizeResult:
    """Measure the sizes of a model.

    Args:
        exported: the model.
        shipped: the files to measure, with the tokenizer in front of the model if it has one.
        tables: its compressed tables.
        feeds: inputs for one run.
        loaded: sizes of the initializers of sessions after optimisation.
        on_step: called after each of the two slow steps.
    """
    files = {path.name: path.stat().st_size for path in shipped}
    on_disk = sum(files.values())
    packed = sum(table.packed.nbytes for table in tables)
    dense = sum(dense_bytes(table) for table in tables)
    zipped = sum(deflated_bytes(path) for path in shipped)
    on_step()
    memory = session_growth(exported.path, feeds, CUSTOM), session_growth(exported.path, feeds, PORTABLE)
    on_step()
    return SizeResult(
        files=files,
        dense_equivalent=on_disk - packed + dense,
        on_disk=on_disk,
        zipped=zipped,
        resident=memory[0].resident,
        resident_reason=memory[0].reason,
        initializer_bytes=exported.initializer_bytes(),
        packed_bytes=packed,
        session_bytes=sum(session_bytes(table, exported) for table in tables),
        loaded=loaded,
        parts=file_parts(exported, tables),
        library=None if missing_library() else get_library_path().stat().st_size,
        memory=memory,
    )


def dense_bytes(table: Table) -> int:
    """Return the bytes of the float32 table that a packed one represents: 4nd."""
    return 4 * table.packed.num_embeddings * table.packed.embedding_dim


def session_bytes(table: Table, exported: ExportedModel) -> int:
    """Return an upper bound of the session memory of a table, in bytes, for all nodes that use it."""
    total = 0
    for operator, node in product(table.onnx.uses, exported.nodes_of(table.tensors)):
        if node.op_type == operator.op_type:
            limit = next((item.i for item in node.attribute if item.name == MEMORY_BYTES), None)
            total += node_session_bytes(table.packed.method, table.packed.shape, operator.use, limit)
    return total


def deflated_bytes(path: Path) -> int:
    """Return the bytes of a file after deflate, as in a zip archive (level 6), without holding it in memory."""
    compressor, total = zlib.compressobj(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            total += len(compressor.compress(block))
    return total + len(compressor.flush())


def session_growth(path: Path, feeds: dict[str, NDArray[Any]], name: str) -> SessionGrowth:
    """Return the growth of a fresh process's memory, or the reason why it was not measured.

    Args:
        path: the model.
        feeds: inputs for one run.
        name: `CUSTOM` for a session with the operator library, `PORTABLE` for one without it.
    """
    has_library = name == CUSTOM
    try:
        if has_library and (reason := missing_library()):
            raise NotRunError(reason)
        found = measure_fresh(path, get_library_path() if has_library else None, feeds)
    except NotRunError as error:
        return SessionGrowth(name, None, None, None, None, f"not run: {error}")
    return SessionGrowth(name, found.opened_private, found.opened_resident, found.private, found.resident, "")
