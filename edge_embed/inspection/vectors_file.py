"""Inspection of a file of word vectors: it is read whole, and reported as the model that it would be."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.program_file import report_of
from edge_embed.inspection.report import FileReport, TableInfo

_NOTE = "no compressed table: edge-embed compress writes one, in a model that can be exported"


def inspect_vectors(path: Path, verify: bool, reading: Reading = AS_IT_SHOWS) -> FileReport | None:
    """Report a file of vectors, or return None for any other file. It has no checksums, so nothing is verified.

    Raises:
        BadInputError: It is damaged.
    """
    program = load_foreign(path, reading=reading)
    if program is None or program.source is None:
        return None
    size = program.source.stat().st_size
    report = report_of(program, path, "vectors", size, verify)
    # A table as text or compressed fills all of its file, whatever its size in memory.
    dense = [replace(table, stored_bytes=min(size, table.stored_bytes)) for table in report.dense]
    tables = [_in_file(table, verify) for table in report.tables]
    return replace(report, tables=tables, dense=dense, notes=[] if tables else [_NOTE])


def _in_file(table: TableInfo, verify: bool) -> TableInfo:
    """Remove the zeros that fill up the last group in memory from a product-quantised table."""
    zeros = table.attributes["num_codes"] * table.attributes.get("unused_columns", 0)
    stored = table.stored_bytes - zeros * np.dtype(table.value_type).itemsize
    return replace(table, stored_bytes=stored, hash_status="no hash" if verify else "not checked")
