"""Export of a lowered program to one TFLite file of standard operators, for every runtime that reads the format.

Tables are written without a converter, which would fold them to their dense form and fix the sizes of inputs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edge_embed.exporters.exported import ExportedFile, OnWritten, check_tables, keep_unopened, metadata_of
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.program import UnsupportedError, translate
from edge_embed.exporters.tflite.signatures import choose_signatures
from edge_embed.exporters.tflite.table_uses import Layout, choose_layouts, layouts_json
from edge_embed.exporters.tflite.translated import Translated
from edge_embed.exporters.tflite.whole_model import translate_whole
from edge_embed.files import new_file
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.report.results.table_record import TableRecord


def export_tflite(
    lowered: LoweredProgram,
    path: Path,
    tflite_table: str = "auto",
    tflite_sizes: Mapping[str, Sequence[int]] | None = None,
    force: bool = False,
    on_written: OnWritten = keep_unopened,
) -> ExportedFile:
    """Write a lowered program as TFLite.

    Args:
        lowered: a program from `edge_embed.lowering.graph.lower_program`.
        path: the file to write.
        tflite_table: lookup of DPQ tables with several codes per byte: ``byte``, ``pairs``, which is faster and larger,
            or ``auto``: pairs if they add at most 20 % to the table.
        tflite_sizes: sizes by name of the dynamic dimension, each with a signature. By default a program of rows and
            bags stays dynamic, and others have the sizes of their example.
        force: overwrite an existing file.
        on_written: called with the path of the complete file before it gets its name; an error leaves nothing.

    Raises:
        BadInputError: the program has no compressed table, or an operator without TFLite equivalent; a table does not
            support the layout, or does not fit one file; there is no such dimension.
        EdgeEmbedError: the package ai-edge-litert is not installed, or litert-torch if it is needed.
        OutputError: the file cannot be written; nothing partial is left.
    """
    check_tables(lowered)
    layouts = choose_layouts(lowered.tables, tflite_table)
    made = _translated(lowered, layouts, tflite_sizes or {})
    with new_file(path, force=force) as temporary:
        _write(lowered, layouts, made, temporary)
        on_written(temporary)
    return ExportedFile(
        (path,),
        {name: [size for size in shape if not size[0].isdigit()] for name, shape in made.shapes.items()},
        {name: [size for size in shape if size[0].isdigit()] for name, shape in made.shapes.items()},
        tuple(_with_layout(record, layouts.get(record.name)) for record in lowered.reports),
        signatures=made.signatures,
    )


def _with_layout(record: TableRecord, layout: Layout | None) -> TableRecord:
    return record if layout is None else replace(record, layout=layout.name, added_bytes=layout.added_bytes)


def write_program(
    lowered: LoweredProgram, layouts: Mapping[str, Layout], sizes: Mapping[str, Sequence[int]], path: Path
) -> None:
    """Write a program with given layouts of its tables; sizes and errors are those of `export_tflite`."""
    _write(lowered, layouts, _translated(lowered, layouts, sizes), path)


def _write(lowered: LoweredProgram, layouts: Mapping[str, Layout], made: Translated, path: Path) -> None:
    metadata = {**metadata_of(lowered), LAYOUTS_KEY: layouts_json(made.hashes, layouts)}
    made.builder.write(path, {**metadata, **delegate_metadata(made.delegate)})


def _translated(
    lowered: LoweredProgram, layouts: Mapping[str, Layout], sizes: Mapping[str, Sequence[int]]
) -> Translated:
    if not sizes:
        with suppress(UnsupportedError):
            return translate(lowered, layouts)
    return translate_whole(lowered, layouts, choose_signatures(lowered.program, sizes))
