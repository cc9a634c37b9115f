"""Compresses the dense tables of a TFLite file in place."""

from collections.abc import Iterator
from pathlib import Path

import torch

from edge_embed.compression.found import FoundTable
from edge_embed.compression.job import Job
from edge_embed.exporters.onnx.names import FIDELITY_KEY
from edge_embed.exporters.tflite.foreign import ForeignFile, damaged, read_foreign
from edge_embed.exporters.tflite.replace import check_dense, manifest_names, other_reader, replace_in
from edge_embed.files import check_output
from edge_embed.lowering.compress import CompressedFile
from edge_embed.report.compressed import CompressReport
from edge_embed.report.promise import promises_of, write_promises


def compress_tflite(path: Path, job: Job, output: Path, force: bool = False) -> CompressedFile:
    """Write a TFLite file with packed tables in the place of dense ones; all else in it stays as it was.

    Args:
        path: a TFLite file of any converter.
        job: what is wanted; names of tables are those of constants.
        output: the file to write; the first of the job's processes does.
        force: overwrite an existing file.

    Raises:
        BadInputError: if the file is damaged, or no table can be replaced.
        SizeError: as of `edge_embed.compression.plan.compress_tables`.
        ParityError: as there.
        EdgeEmbedError: if the package ai-edge-litert is not installed.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    job.processes.first(lambda: check_output([output], [path], force))
    file = read_foreign(path)
    with damaged(path):
        check_dense(file)
        found = list(_tables(file))
    made, reports = job.run(job.chosen(found, _numbers(path)))
    stored = {name: fitted.stored("beside") for name, fitted in made.items()}
    texts = {FIDELITY_KEY: write_promises(promises_of(reports, manifest_names(stored)))}

    def write() -> list[int]:
        replace_in(file, output, stored, "auto", force, texts)
        return [part.stat().st_size for part in (path, output)]

    return CompressedFile(output, CompressReport(reports, *job.processes.same(write)))


def _tables(file: ForeignFile) -> Iterator[FoundTable]:
    for name, rows in file.tables.items():
        reader = other_reader(file, name)
        reason = "" if reader is None else f"{reader} takes it too"
        yield FoundTable(name, torch.from_numpy(rows), None, file.lookups(name), True, reason)
    for name, (kind, shape) in file.others.items():
        reason = f"its numbers are {kind}, expected float32: convert the model without quantisation"
        yield FoundTable(name, torch.zeros(1).expand(shape), None, 1, True, reason)


def _numbers(path: Path) -> int:
    """Of a file, were all of it float32."""
    return path.stat().st_size // 4
