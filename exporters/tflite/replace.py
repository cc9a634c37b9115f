"""Packed tables in the place of the dense ones in a TFLite file that another tool made.

Each ``GATHER`` of such a table becomes its packed look-up, at the same place, with a ``BATCH_MATMUL`` behind it where
rows are rotated. Everything else stays as it was: other
operators and their order, inputs, outputs, signatures, metadata, and the files in an archive behind the model.
"""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.fitted import Stored
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.flatbuffer import ModelBuilder
from edge_embed.exporters.tflite.foreign import ForeignFile, damaged, operator_name, read_foreign
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.splice import take_over, tensor_at
from edge_embed.exporters.tflite.uses import Layout, add_use, choose_layouts, layouts_json
from edge_embed.files import StrPath, keep_inputs, new_file
from edge_embed.packed.form import Packed
from edge_embed.packed.manifest import write_manifest

_IDS = ("int32", "int64")


def read_dense_tables(path: StrPath) -> dict[str, NDArray[np.float32]]:
    """The tables of a TFLite file, float32 [n, d] by name: the constants that ``GATHER`` takes rows of.

    Raises:
        BadInputError: if the file is missing or damaged.
        EdgeEmbedError: if the package ai-edge-litert is not installed.
    """
    return dict(read_foreign(Path(path)).tables)


def replace_tables(
    source: StrPath, output: StrPath, tables: Mapping[str, Packed], tflite_table: str = "auto", force: bool = False
) -> Mapping[str, Layout]:
    """Write a TFLite file with packed tables in the place of dense ones.

    Args:
        source: a TFLite file, of any converter.
        output: the file to write.
        tables: packed tables of the same n and d, by the name of the dense one (`read_dense_tables`).
        tflite_table: as of the export.
        force: overwrite an existing file.

    Returns:
        The layout of each table, by the name that it has in the manifest: that of the dense one with a dot for what
        a manifest cannot hold.

    Raises:
        BadInputError: if the source is missing or damaged, has no such table, needs one as a whole too, has compressed
            tables already, or has loops or branches; if the result does not fit one file.
        EdgeEmbedError: if the package ai-edge-litert is not installed.
        OutputError: if the file cannot be written; nothing partial is left.
    """
    keep_inputs([Path(output)], [source])
    stored = {name: Stored(packed) for name, packed in tables.items()}
    return replace_in(read_foreign(Path(source)), output, stored, tflite_table, force)


def replace_in(
    file: ForeignFile,
    output: StrPath,
    tables: Mapping[str, Stored],
    tflite_table: str,
    force: bool,
    texts: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, Layout]:
    """`replace_tables` of a file that was read, whose model is changed; ``texts`` are more of its metadata."""
    with damaged(file.path):
        _check(file, {name: stored.plain for name, stored in tables.items()})
        names = manifest_names(tables)
        packed = {names[name]: stored.plain for name, stored in tables.items()}
        layouts = choose_layouts(packed, tflite_table)
        builder, metadata = _Replacement(file, tables, names, layouts).run()
    with new_file(output, force=force) as temporary:
        with damaged(file.path):
            builder.write(temporary, {MANIFEST_KEY: write_manifest(packed), **metadata, **texts})
        _attach(file, temporary)
    return layouts


def check_dense(file: ForeignFile) -> None:
    """Refuse a file with packed tables: theirs are not told from the pieces that those are made of."""
    if any(entry.name == MANIFEST_KEY.encode() for entry in file.model.metadata or ()):
        raise BadInputError(f"{file.path}: has compressed tables already: replace all at once, in the original file")


def _check(file: ForeignFile, tables: Mapping[str, Packed]) -> None:
    check_dense(file)
    for name, packed in tables.items():
        if name not in file.tables:
            known = ", ".join(file.tables) or "none"
            left = ", ".join(f"{name} ({other.kind})" for name, other in file.others.items())
            reason = f"; not float32, so convert the model without quantisation: {left}" if left else ""
            raise BadInputError(f"{file.path}: got a table for {name!r:.200}, expected one of: {known}{reason}")
        got, expected = (packed.num_embeddings, packed.embedding_dim), file.tables[name].shape
        if got != expected:
            raise BadInputError(f"table {name}: got packed rows {list(got)}, expected {list(expected)}")
        if reader := other_reader(file, name):
            raise BadInputError(f"table {name}: got one that {reader} reads too, expected look-ups of rows only")


def other_reader(file: ForeignFile, name: str) -> str | None:
    """What needs a table as a whole, which would keep it in the file."""
    buffer = _buffer_of(file, name)
    for graph in file.model.subgraphs:
        same = {number for number, tensor in enumerate(graph.tensors) if tensor.buffer == buffer}
        for operator in graph.operators:
            if same & set(map(int, operator.inputs)) and file.table_of(graph, operator) != name:
                return operator_name(file.model, operator)
    return None


def _buffer_of(file: ForeignFile, name: str) -> int:
    lookups = ((graph, operator) for graph in file.model.subgraphs for operator in graph.operators)
    found = (graph.tensors[operator.inputs[0]] for graph, operator in lookups
             if file.table_of(graph, operator) == name)  # fmt: skip
    return int(next(found).buffer)


def manifest_names(tables: Iterable[str]) -> dict[str, str]:
    """Names without what manifests cannot hold: blanks, slashes, what is not ASCII."""
    names = {name: re.sub(r"[^!-.0-~]", ".", name) for name in tables}
    if len(set(names.values())) < len(names):
        expected = "expected names that differ by more than blanks and slashes: replace one of them only"
        raise BadInputError(f"got tables {', '.join(names)}, {expected}")
    return names


class _Replacement:
    """The model with packed tables."""

    def __init__(
        self,
        file: ForeignFile,
        tables: Mapping[str, Stored],
        names: Mapping[str, str],
        layouts: Mapping[str, Layout],
    ) -> None:
        self._file, self._tables, self._names, self._layouts = file, tables, names, layouts
        self._builder = ModelBuilder()
        self._hashes: dict[str, str] = {}
        self._lines: list[str | None] = []

    def run(self) -> tuple[ModelBuilder, dict[str, str]]:
        """The model, and what it says of its tables."""
        model = self._file.model
        lookups = [[self._file.table_of(graph, operator) for operator in graph.operators] for graph in model.subgraphs]
        dense = {_buffer_of(self._file, name) for name in self._tables}
        for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
            if tensor.buffer in dense:  # nothing reads it any more; without it others would get other numbers
                tensor.buffer, tensor.shape, tensor.shapeSignature = 0, [0], None
        for number, (graph, names) in enumerate(zip(take_over(self._builder, model), lookups, strict=True)):
            self._put_in(graph, names, f"edge_embed/{number}/")
        self._builder.adopt(model)
        layouts = layouts_json(self._hashes, self._layouts)
        return self._builder, {LAYOUTS_KEY: layouts, **delegate_metadata(dict.fromkeys(self._lines))}

    def _put_in(self, graph: Any, names: Sequence[str | None], prefix: str) -> None:
        """Rebuild the operators of a subgraph in their order, packed look-ups in the place of the dense ones."""
        operators, graph.operators = graph.operators, []
        added = Graph(self._builder, graph, prefix)
        for name, operator in zip(names, operators, strict=True):
            if name in self._tables:
                self._look_up(added, graph, str(name), *map(int, (operator.inputs[1], operator.outputs[0])))
            else:
                graph.operators.append(operator)
        self._hashes |= added.hashes

    def _look_up(self, added: Graph, graph: Any, name: str, ids: int, result: int) -> None:
        """Add the look-up of a table; its last operator gives the tensor that the dense one gave."""
        own, stored = self._names[name], self._tables[name]
        given = tensor_at(graph, ids)
        # An app may give them another size than the file has.
        given = Tensor(given.index, given.name, given.dtype, (-1,) * len(given.shape))
        given = given if given.dtype in _IDS else added.cast(given, "int32")
        (made,), line = add_use(added, "rows", own, stored.plain, self._layouts[own].name, [given])
        made = added.cast(made, "float32")
        if stored.rotation is not None:
            rotation = added.constant(stored.rotation, stored.rotation.dtype.name)
            made = added.rows_times(made, added.cast(rotation, "float32"))
        graph.operators[-1].outputs = [result]
        del graph.tensors[made.index]  # the last one
        kept = graph.tensors[result]
        if result not in graph.outputs:
            kept.name = made.name.encode()  # which no other subgraph has, so the delegate knows it
        elif line is not None:
            name_kept = kept.name.decode()
            line = None if " " in name_kept else line.replace(f" output={made.name} ", f" output={name_kept} ")
        self._lines.append(line)


def _attach(file: ForeignFile, path: Path) -> None:
    """Put the archive behind the model again."""
    entries, comment = file.attached
    if entries:
        with zipfile.ZipFile(path, "a") as archive:
            for entry, content in entries:
                archive.writestr(entry, content)
            archive.comment = comment
