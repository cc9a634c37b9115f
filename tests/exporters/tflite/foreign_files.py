"""Small TFLite files such as other tools make: rows of dense tables, metadata, an archive behind the model."""

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder, load_schema
from edge_embed.exporters.tflite.graph import Graph, Tensor

ROWS, DIM = 60, 12
WORDS = "tower/words embedding;lookup"  # names that converters give
METADATA = {"TFLITE_METADATA": "what a library knows", "min_runtime_version": "1.5.0"}
TABLE = np.random.default_rng(1).normal(size=(ROWS, DIM)).astype(np.float32)
WEIGHTS = np.random.default_rng(2).normal(size=(3, DIM)).astype(np.float32)

Lookup = Callable[[Graph, Tensor, Tensor], Tensor]


def mean_of_rows(graph: Graph, table: Tensor, ids: Tensor) -> Tensor:
    """Add the scores [batch, 3] of ids [batch, length] to a graph."""
    sums = graph.sum(graph.gather(table, ids), [1])
    return graph.products(sums, graph.table("head/weights", WEIGHTS))


def write_foreign(
    path: Path,
    table: np.ndarray = TABLE,
    ids_type: str = "int32",
    make: Lookup = mean_of_rows,
    signatures: Sequence[str] = ("serving_default",),
    shape: Sequence[int] = (1, 4),
) -> Path:
    """Write a file with a table that each signature uses."""
    builder = ModelBuilder()
    for name in signatures:
        prefix = f"{name}/" if len(signatures) > 1 else ""
        graph = Graph(builder, prefix=prefix)
        ids = graph.input(f"{prefix}ids", ids_type, shape)
        graph.end(name, {"ids": ids}, {"answers": make(graph, graph.table(WORDS, table), ids)})
    builder.write(path, METADATA)
    return path


def attach(path: Path, **files: str) -> Path:
    """Append an archive to the model, as the metadata writer of TFLite Support does."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.txt", text)
        archive.comment = b"of the maker"
    return path


def change(path: Path, changed: Callable[[Any], None]) -> Path:
    """Change the objects of a model."""
    schema = load_schema()
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    changed(model)
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path
