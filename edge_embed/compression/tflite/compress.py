"""Compression of the dense tables of a TFLite file in place."""

from collections.abc import Iterator
from pathlib import Path

import torch

from edge_embed.compression.job import Job
from edge_embed.compression.programs import CompressedFile
from edge_embed.compression.tflite.dense_tables import ForeignTable, largest_constants
from edge_embed.compression.tflite.foreign_file import ForeignFile, damaged, read_foreign
from edge_embed.compression.tflite.lookups import LOOKUPS
from edge_embed.compression.tflite.output_layers import OutputLayer
from edge_embed.compression.tflite.replace import check_dense, manifest_names, replace_in
from edge_embed.errors import BadInputError
from edge_embed.exporters.exported import OnWritten, keep_unopened
from edge_embed.exporters.onnx.names import FIDELITY_KEY
from edge_embed.files import check_output
from edge_embed.fitting.found_table import FoundTable
from edge_embed.report.results.compressed import CompressReport
from edge_embed.report.results.fidelity_promise import promises_of, write_promises


def compress_tflite(
    path: Path, job: Job, output: Path, force: bool = False, on_written: OnWritten = keep_unopened
) -> CompressedFile:
    """Write a TFLite file with packed tables in place of dense ones; the rest of the file does not change.

    Args:
        path: a TFLite file of any converter.
        job: the requested compression; tables are named by constants.
        output: the file to write; the first of the job's processes writes it.
        force: overwrite an existing file.
        on_written: called with the path of the complete file before it gets its name; an error leaves nothing.

    Raises:
        BadInputError: the file is damaged, or no table can be replaced.
        SizeError: see `edge_embed.compression.plan.compress_tables`.
        ParityError: see `edge_embed.compression.plan.compress_tables`.
        EdgeEmbedError: the package ai-edge-litert is not installed.
        OutputError: the file cannot be written; nothing partial is left.
    """
    file = read_foreign(path)
    job.processes.first(lambda: check_output([output], file.files, force))
    with damaged(path):
        check_dense(file)
        _check_any(file)
        found = list(_tables(file))
    made, reports = job.run(job.chosen(found, _numbers(file)))
    stored = {name: fitted.stored("beside") for name, fitted in made.items()}
    texts = {FIDELITY_KEY: write_promises(promises_of(reports, manifest_names(stored)))}

    def write() -> list[int]:
        job.progress("writing", 0, 1)
        replace_in(file, output, stored, "auto", force, texts, on_written)
        return [file.nbytes, output.stat().st_size]

    dense_bytes, written_bytes = job.processes.same(write)
    return CompressedFile(output, CompressReport(reports, dense_bytes, written_bytes))


def _tables(file: ForeignFile) -> Iterator[FoundTable]:
    for name, table in file.found.items():
        reason = _why_it_stays(table)
        weight = torch.zeros(1).expand(table.shape) if reason else torch.from_numpy(table.rows)
        uses = len(table.lookups) + len(table.output_layers)
        yield FoundTable(name, weight, None, uses, True, reason, held_bytes=table.held_bytes)
    for layer in file.outputs:
        nothing = torch.zeros(1).expand(layer.shape)
        yield FoundTable(
            layer.name, nothing, None, 1, False, _why_left(layer), held_bytes=layer.held_bytes, is_output=True
        )


def _why_left(layer: OutputLayer) -> str:
    return (
        f"{layer.kind} {list(layer.shape)}, {layer.held_bytes:,} bytes: an output layer ({layer.operator}) without "
        "lookups: compress the model before its conversion, and name the layer (--module)"
    )


def _why_it_stays(table: ForeignTable) -> str:
    """Return the reason why a table is not compressed, with size, users and remedy, or an empty string."""
    shown = f"{table.kind} {list(table.shape)}, {table.held_bytes:,} bytes, looked up by {table.looked_up_by}"
    if table.unread:
        return f"{shown}: {table.unread}"
    if table.readers:
        return f"{shown}, also used as a whole by {', '.join(table.readers)}: compress the model before its conversion"
    return ""


def _check_any(file: ForeignFile) -> None:
    if not file.found:
        raise BadInputError(
            f"{file.path}: no constant is looked up by {', '.join(LOOKUPS)}; the largest constants: "
            f"{largest_constants(file.model) or 'none'}; compress the model before its conversion"
        )


def _numbers(file: ForeignFile) -> int:
    """Return the number of elements of a file as if all of it were float32."""
    return file.nbytes // 4
