"""A lowered program -> one TFLite file of standard operators, for every runtime that reads the format.

Written without a converter, which would fold a table back to its dense form and fix the sizes of inputs.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from edge_embed.exporters.exported import ExportedFile, check_tables, metadata_of
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.program import Layout, choose_layouts, translate
from edge_embed.files import new_file
from edge_embed.lowering.graph import LoweredProgram


def export_tflite(lowered: LoweredProgram, path: Path, tflite_table: str = "auto", force: bool = False) -> ExportedFile:
    """Write a lowered program as TFLite.

    Args:
        lowered: from `edge_embed.lowering.graph.lower_program`.
        path: the file to write.
        tflite_table: how DPQ tables with several codes a byte are looked up: ``byte``, ``pairs``, which is faster
            and larger, or ``auto``: pairs where they add at most a fifth to the table.
        force: overwrite an existing file.

    Raises:
        BadInputError: if the program has no compressed table, or does more than looking up and reducing rows; if a
            table cannot be looked up so, or does not fit one file.
        EdgeEmbedError: if the package ai-edge-litert is not installed.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    check_tables(lowered)
    layouts = choose_layouts(lowered, tflite_table)
    made = translate(lowered, layouts)
    metadata = {**metadata_of(lowered), LAYOUTS_KEY: _layouts_json(made.graph, layouts)}
    with new_file(path, force=force) as temporary:
        made.graph.write(temporary, made.outputs, {**metadata, **delegate_metadata(made.delegate)})
    sizes = _sizes(lowered, made.outputs)
    return ExportedFile(
        (path,),
        {name: [size for size in shape if not size.isdigit()] for name, shape in sizes.items()},
        {name: [size for size in shape if size.isdigit()] for name, shape in sizes.items()},
        layouts={name: layout.name for name, layout in layouts.items()},
        added_bytes={name: layout.added_bytes for name, layout in layouts.items()},
    )


def _layouts_json(graph: Graph, layouts: Mapping[str, Layout]) -> str:
    entries = {
        table: {
            "layout": layout.name,
            "sha256": {tensor: digest for tensor, digest in graph.hashes.items() if tensor.rpartition(".")[0] == table},
        }
        for table, layout in layouts.items()
    }
    return json.dumps(entries, sort_keys=True)


def _sizes(lowered: LoweredProgram, outputs: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The dimensions of inputs by name or size, and of outputs, whose names of dimensions are not known."""
    sizes = {declared.name: [str(size) for size in declared.shape] for declared in lowered.program.inputs}
    for name, tensor in outputs.items():
        sizes[name] = ["derived" if size < 0 else str(size) for size in tensor.shape]
    return sizes
