"""Packed tables in place of the dense ones of a TFLite file of another tool.

Each operator that looks up such a table (`lookups`) is replaced by its packed lookup, at the same place. A
``BATCH_MATMUL`` follows if rows are rotated, and ``DEQUANTIZE`` before and behind it is removed. Output layers that
share the table (`tied_output_layers`) are replaced by products with its packed rows. The rest does not change: order
and options of other operators, inputs, outputs, signatures, metadata, and the files in an archive behind the model.
"""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.tflite.cleared_tensors import DenseTensors
from edge_embed.compression.tflite.dense_tables import ForeignTable
from edge_embed.compression.tflite.foreign_file import ForeignFile, damaged, read_foreign
from edge_embed.compression.tflite.lookups import Lookup
from edge_embed.compression.tflite.placed_lookups import Placed
from edge_embed.compression.tflite.subgraph_calls import numbers, operator_name
from edge_embed.compression.tflite.tensor_names import ambiguous_names
from edge_embed.compression.tflite.tied_output_layers import TiedOutputLayer
from edge_embed.compression.tflite.tied_products import add_product
from edge_embed.errors import BadInputError
from edge_embed.exporters.exported import OnWritten, keep_unopened
from edge_embed.exporters.onnx.names import MANIFEST_KEY
from edge_embed.exporters.tflite.flatbuffer import ModelBuilder
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.manifest import delegate_metadata
from edge_embed.exporters.tflite.names import LAYOUTS_KEY
from edge_embed.exporters.tflite.splice import take_over, tensor_at
from edge_embed.exporters.tflite.table_uses import Layout, add_use, choose_layouts, layouts_json
from edge_embed.files import StrPath, keep_inputs, new_file
from edge_embed.fitting.fitted_table import Stored
from edge_embed.packed.manifest import write_manifest
from edge_embed.packed.packed_form import PackedTable


def read_dense_tables(path: StrPath) -> dict[str, NDArray[np.float32]]:
    """Return the tables of a TFLite file, float32 [n, d] by name: the constants with row lookups, dequantised.

    Raises:
        BadInputError: the file is missing or damaged.
        EdgeEmbedError: the package ai-edge-litert is not installed.
    """
    file = read_foreign(Path(path))
    with damaged(file.path):
        return {name: table.rows for name, table in file.tables.items()}


def replace_tables(
    source: StrPath, output: StrPath, tables: Mapping[str, PackedTable], tflite_table: str = "auto", force: bool = False
) -> Mapping[str, Layout]:
    """Write a TFLite file with packed tables in place of dense ones.

    Args:
        source: a TFLite file, of any converter.
        output: the file to write.
        tables: packed tables of the same n and d, by the name of the dense one (`read_dense_tables`).
        tflite_table: layout of tables, as in an export.
        force: overwrite an existing file.

    Returns:
        The layout of each table, by its name in the manifest: the name of the dense one, with dots for characters
        that are invalid in a manifest.

    Raises:
        BadInputError: the source is missing or damaged, lacks such a table, uses one as a whole too, or has compressed
            tables already; the result does not fit one file.
        EdgeEmbedError: the package ai-edge-litert is not installed.
        OutputError: the file cannot be written; nothing partial is left.
    """
    file = read_foreign(Path(source))
    keep_inputs([Path(output)], file.files)
    stored = {name: Stored(packed) for name, packed in tables.items()}
    return replace_in(file, output, stored, tflite_table, force)


def replace_in(
    file: ForeignFile,
    output: StrPath,
    tables: Mapping[str, Stored],
    tflite_table: str,
    force: bool,
    texts: Mapping[str, str] = MappingProxyType({}),
    on_written: OnWritten = keep_unopened,
) -> Mapping[str, Layout]:
    """Do `replace_tables` for a file that was read, which changes its model; ``texts`` are additional metadata.

    ``on_written`` is called with the path of the complete file before it gets its name; an error leaves nothing.
    """
    content, layouts = packed_content(file, tables, tflite_table, texts)
    with new_file(output, force=force) as temporary:
        temporary.write_bytes(content)
        _attach(file, temporary)
        on_written(temporary)
    return layouts


def packed_content(
    file: ForeignFile,
    tables: Mapping[str, Stored],
    tflite_table: str,
    texts: Mapping[str, str] = MappingProxyType({}),
) -> tuple[memoryview, Mapping[str, Layout]]:
    """Return the bytes that `replace_in` writes before the archive, and the layouts."""
    with damaged(file.path):
        _check(file, {name: stored.plain for name, stored in tables.items()})
        names = manifest_names(tables)
        packed = {names[name]: stored.plain for name, stored in tables.items()}
        layouts = choose_layouts(packed, tflite_table)
        builder, metadata = _Replacement(file, tables, names, layouts).run()
        return builder.pack({MANIFEST_KEY: write_manifest(packed), **metadata, **texts}), layouts


def check_dense(file: ForeignFile) -> None:
    """Refuse a file with packed tables, whose parts would be mistaken for dense tables."""
    if any(entry.name == MANIFEST_KEY.encode() for entry in file.model.metadata or ()):
        raise BadInputError(
            f"{file.path}: already contains compressed tables: replace all of them in the original file"
        )


def _check(file: ForeignFile, tables: Mapping[str, PackedTable]) -> None:
    check_dense(file)
    for name, packed in tables.items():
        if name not in file.tables:
            known = ", ".join(file.tables) or "none"
            left = "; ".join(f"{table}: {table.unread}" for table in file.found.values() if table.unread)
            reason = f"; cannot replace {left}" if left else ""
            raise BadInputError(f"{file.path}: got a table for {name!r:.200}, expected one of: {known}{reason}")
        got, expected = (packed.num_embeddings, packed.embedding_dim), file.tables[name].shape
        if got != expected:
            raise BadInputError(f"table {name}: got packed rows {list(got)}, expected {list(expected)}")
        if reader := ", ".join(file.tables[name].readers):
            raise BadInputError(f"table {name}: got other uses by {reader}, expected lookups of rows only")


def manifest_names(tables: Iterable[str]) -> dict[str, str]:
    """Replace characters that are invalid in manifests: blanks, slashes, non-ASCII characters."""
    names = {name: re.sub(r"[^!-.0-~]", ".", name) for name in tables}
    if len(set(names.values())) < len(names):
        expected = "expected names that differ in more than blanks and slashes: replace only one of them"
        raise BadInputError(f"got tables {', '.join(names)}, {expected}")
    return names


class _Replacement:
    """Creates the model with packed tables."""

    def __init__(
        self,
        file: ForeignFile,
        tables: Mapping[str, Stored],
        names: Mapping[str, str],
        layouts: Mapping[str, Layout],
    ) -> None:
        self._model, self._tables, self._names, self._layouts = file.model, tables, names, layouts
        self._builder = ModelBuilder()
        self._hashes: dict[str, str] = {}
        self._lines: list[str | None] = []
        found = [file.found[name] for name in tables]
        self._lookups = {id(lookup.operator): (table, lookup) for table in found for _, lookup in table.lookups}
        self._output_layers = {
            id(layer.operator): (table, layer) for table in found for _, layer in table.output_layers
        }
        self._sizes = {table.name: tuple(numbers(file.origins.tensor(table.origin).shape)) for table in found}
        self._clear = DenseTensors(file, found)

    def run(self) -> tuple[ModelBuilder, dict[str, str]]:
        """Return the model, and the metadata about its tables."""
        self._clear.run()
        for number, graph in enumerate(take_over(self._builder, self._model)):
            self._put_in(graph, f"edge_embed/{number}/")
        self._builder.adopt(self._model)
        layouts = layouts_json(self._hashes, self._layouts)
        ambiguous = ambiguous_names(self._model.subgraphs)
        lines = (line for line in dict.fromkeys(self._lines) if line and not _values(line) & ambiguous)
        return self._builder, {LAYOUTS_KEY: layouts, **delegate_metadata(lines)}

    def _put_in(self, graph: Any, prefix: str) -> None:
        """Rebuild the operators of a subgraph in their order, with packed lookups in place of the dense ones."""
        operators, graph.operators = graph.operators, []
        gone, results = self._gone(graph, operators)
        added = Graph(self._builder, graph, prefix)
        for operator in operators:
            if id(operator) in self._lookups:
                table, lookup = self._lookups[id(operator)]
                self._look_up(added, graph, table, lookup, results.get(id(operator), lookup.result))
            elif id(operator) in self._output_layers:
                self._multiply(added, graph, *self._output_layers[id(operator)])
            elif id(operator) not in gone:
                graph.operators.append(operator)
        self._hashes |= added.hashes

    def _gone(self, graph: Any, operators: Sequence[Any]) -> tuple[set[int], dict[int, int]]:
        """Return the operators of a subgraph that are no longer needed, and lookups whose result gets another tensor.

        ``DEQUANTIZE`` after the lookup of a quantised table is removed if nothing else uses the quantised rows.
        """
        given = numbers(graph.outputs)
        results = {}
        gone = {id(operator) for operator in operators if self._clear.makes_none(graph, operator)}
        for operator in operators:
            if id(operator) not in self._lookups:
                continue
            _, lookup = self._lookups[id(operator)]
            takers = [each for each in operators if lookup.result in numbers(each.inputs)]
            if lookup.result not in given and [operator_name(self._model, each) for each in takers] == ["DEQUANTIZE"]:
                results[id(operator)] = numbers(takers[0].outputs)[0]
                gone.add(id(takers[0]))
        kept = [each for each in operators if id(each) not in {*gone, *self._lookups}]
        needed = {*given, *(tensor for each in kept for tensor in numbers(each.inputs))}
        hot = [lookup.one_hot for _, lookup in self._lookups.values() if lookup.one_hot is not None]
        gone |= {id(each) for each in hot if not needed & set(numbers(each.outputs))}
        return gone, results

    def _multiply(self, added: Graph, graph: Any, table: ForeignTable, layer: TiedOutputLayer) -> None:
        """Add the product with all rows of a table."""
        own = self._names[table.name]
        layout = self._layouts[own].name
        made, line = add_product(added, graph, layer, own, self._tables[table.name], layout)
        self._end(graph, made, layer.result, line)

    def _look_up(self, added: Graph, graph: Any, table: ForeignTable, lookup: Lookup, result: int) -> None:
        """Add the lookup of a table."""
        own, stored = self._names[table.name], self._tables[table.name]
        placed = Placed(added, graph, lookup, self._sizes[table.name])
        ids = placed.ids()
        (made,), line = add_use(added, "rows", own, stored.plain, self._layouts[own].name, [ids])
        made = added.cast(made, "float32")
        if stored.rotation is not None:
            rotation = added.constant(stored.rotation, stored.rotation.dtype.name)
            made = added.rows_times(made, added.cast(rotation, "float32"))
        self._end(graph, placed.result(made, ids, tensor_at(graph, result).dtype), result, line)

    def _end(self, graph: Any, made: Tensor, result: int, line: str | None) -> None:
        """Connect the output of the last operator to the tensor of the dense result."""
        graph.operators[-1].outputs = [result]
        del graph.tensors[made.index]  # the last tensor
        kept = graph.tensors[result]
        if result not in graph.outputs:
            kept.name = made.name.encode()  # unique among subgraphs, so the delegate finds it
        elif line is not None:
            name_kept = kept.name.decode()
            line = None if " " in name_kept else line.replace(f" output={made.name} ", f" output={name_kept} ")
        self._lines.append(line)


def _values(line: str) -> set[str]:
    """Return the values in a line of the delegate, including names of tensors, which it searches in all subgraphs."""
    return {word.partition("=")[2] for word in line.split()}


def _attach(file: ForeignFile, path: Path) -> None:
    """Append the archive to the model again."""
    entries, comment = file.attached
    if entries:
        with zipfile.ZipFile(path, "a") as archive:
            for entry, content in entries:
                archive.writestr(entry, content)
            archive.comment = comment
