"""Compression of the dense tables of an ONNX file in place."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edge_embed.compression.job import Job
from edge_embed.compression.onnx.dense_tables import OnnxTable, dense_tables, in_company, weight_of
from edge_embed.compression.onnx.foreign_model import ForeignModel, read_foreign
from edge_embed.compression.onnx.largest_constants import largest_constants
from edge_embed.compression.onnx.opset import raise_opset
from edge_embed.compression.onnx.replace import metadata_of, replace_tables, set_metadata
from edge_embed.compression.onnx.session_memory import limit_session_memory
from edge_embed.compression.onnx.write import write_foreign
from edge_embed.compression.programs import CompressedFile
from edge_embed.exporters.exported import OnWritten, keep_unopened
from edge_embed.exporters.onnx.model_file import damaged
from edge_embed.exporters.onnx.names import FIDELITY_KEY, MANIFEST_KEY
from edge_embed.exporters.onnx.storage import weights_file
from edge_embed.files import check_output
from edge_embed.packed.manifest import parse_manifest
from edge_embed.report.results.compressed import CompressedTable, CompressReport
from edge_embed.report.results.fidelity_promise import promises_of, write_promises

_LOG = logging.getLogger(__name__)
_SHOWN = 3


def compress_onnx(
    path: Path,
    job: Job,
    output: Path,
    force: bool = False,
    on_written: OnWritten = keep_unopened,
    memory_bytes: int | None = None,
) -> CompressedFile:
    """Write an ONNX file with packed tables in place of dense ones; the rest of the file does not change.

    A lower operator set is raised to 18. Functions that look up rows, and EmbedLayerNormalization, are inlined.

    Args:
        path: an ONNX file of any tool; external data lies beside it.
        job: the requested compression; tables are named by constants, with or without the ``.weight`` of the file.
        output: the file to write; the first of the job's processes writes it.
        force: overwrite existing files.
        on_written: called with the path of the complete file before it gets its name; an error leaves nothing.
        memory_bytes: session memory for each use of a new table; None selects the default, as for an export.

    Raises:
        BadInputError: the file is damaged, its operator set cannot be raised, or no table can be replaced.
        SizeError: see `edge_embed.compression.plan.compress_tables`.
        ParityError: see `edge_embed.compression.plan.compress_tables`.
        OutputError: the files cannot be written; nothing partial is left.
    """
    file = read_foreign(path)
    job.processes.first(lambda: check_output([output, weights_file(output)], file.files, force))
    reports = compress_foreign(file, job, memory_bytes)

    def write() -> list[int]:
        job.progress("writing", 0, 1)
        written = write_foreign(file, output, force, on_written)
        return [sum(part.stat().st_size for part in files) for files in (file.files, written)]

    dense_bytes, written_bytes = job.processes.same(write)
    return CompressedFile(output, CompressReport(reports, dense_bytes, written_bytes))


def compress_foreign(
    file: ForeignModel,
    job: Job,
    memory_bytes: int | None = None,
    check: Callable[[Sequence[OnnxTable]], None] = lambda tables: None,
) -> tuple[CompressedTable, ...]:
    """Change a model in memory, without writing it.

    Args:
        file: a model that was read.
        job: as for `compress_onnx`.
        memory_bytes: as for `compress_onnx`.
        check: called with the dense tables before the first is compressed.

    Raises:
        BadInputError: as `compress_onnx`, or from ``check``.
        SizeError: as `compress_onnx`.
        ParityError: as `compress_onnx`.
    """
    with damaged(file.path):
        raise_opset(file)
        found = dense_tables(file)
        check(found)
        labels = {table.name for table in found}
        job = job.renamed({table.constant: table.name for table in found if table.constant not in labels})
        without = "" if any(table.looks_up for table in found) else _packed(file) or largest_constants(file)
        wanted = job.chosen(found, file.numbers, without=without)
        tables = [_read(table) for table in in_company(wanted, job.names)]
    fitted, reports = job.run(tables)
    with damaged(file.path):
        made = {table: fitted[table.name].stored(table.rotates) for table in tables if table.name in fitted}
        names = replace_tables(file.model, file.opset, made)
        if memory_bytes is not None and not limit_session_memory(file.model, memory_bytes) and memory_bytes:
            _LOG.warning("memory_megabytes: no new table uses session memory")
        promises = promises_of(reports, names)
        set_metadata(file.model, FIDELITY_KEY, write_promises(promises, metadata_of(file.model, FIDELITY_KEY)))
    return reports


def _packed(file: ForeignModel) -> str:
    """Return a sentence for a file whose tables are compressed already; empty for other files."""
    text = metadata_of(file.model, MANIFEST_KEY)
    names = [] if text is None else [*parse_manifest(text, 0).tables]
    shown = ", ".join(f"{name!r:.80}" for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"got {shown} compressed already, expected dense rows: give the original model" if names else ""


def _read(table: OnnxTable) -> OnnxTable:
    """Return the table with its weight, unless it must stay dense."""
    return table if table.reason else replace(table, weight=weight_of(table))
