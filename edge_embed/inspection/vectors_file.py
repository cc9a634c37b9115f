"""A file of word vectors: what it would be as a model, which is read whole for that."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.program_file import report_of
from edge_embed.inspection.report import FileReport, TableInfo

_NOTE = "no compressed table: edge-embed compress makes one, in a model that can be exported"


def inspect_vectors(path: Path, verify: bool, reading: Reading = AS_IT_SHOWS) -> FileReport | None:
    """Report a file of vectors, or None if this is none. It has no checksums: there is nothing to verify.

    Raises:
        BadInputError: It is damaged.
    """
    program = load_foreign(path, reading=reading)
    if program is None or program.source is None:
        return None
    size = program.source.stat().st_size
    report = report_of(program, path, "vectors", size, verify)
    # As text or compressed, a table takes all of its file, whatever it takes in memory.
    dense = [replace(table, stored_bytes=min(size, table.stored_bytes)) for table in report.dense]
    tables = [_in_file(table, verify) for table in report.tables]
    return replace(report, tables=tables, dense=dense, notes=[] if tables else [_NOTE])


def _in_file(table: TableInfo, verify: bool) -> TableInfo:
    """A product-quantised table, without the zeros that fill up its last group in memory."""
    zeros = table.attributes["num_codes"] * table.attributes.get("unused_columns", 0)
    stored = table.stored_bytes - zeros * np.dtype(table.value_type).itemsize
    return replace(table, stored_bytes=stored, hash_status="no hash" if verify else "not checked")
