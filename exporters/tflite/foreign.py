"""TFLite files that another tool made: their dense tables, and the files that are attached to them."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, one_line
from edge_embed.exporters.tflite.flatbuffer import (
    IDENTIFIER,
    MALFORMED,
    load_schema,
    operator_names,
    read_content,
    type_names,
)

_ARCHIVE_ENTRY = re.compile(rb"PK\x03\x04[\x0a\x14\x2d]\x00")  # of zip, with the versions that are in use
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


class OtherTable(NamedTuple):
    """A constant that rows are taken of, and that is not of float32."""

    kind: str
    shape: tuple[int, int]


@dataclass(frozen=True)
class ForeignFile:
    """A file and its tables.

    Attributes:
        path: where it is.
        model: it, as the classes of the schema.
        tables: float32 [n, d] by name: the constants that ``GATHER`` takes rows of.
        others: tables that are no float32 constants, by name.
        attached: what a zip archive behind the model holds, such as its vocabulary, and the comment of the archive.
    """

    path: Path
    model: Any
    tables: Mapping[str, NDArray[np.float32]]
    others: Mapping[str, OtherTable]
    attached: tuple[list[tuple[zipfile.ZipInfo, bytes]], bytes]

    def table_of(self, graph: Any, operator: Any) -> str | None:
        """The name of the table that an operator looks up, None if it does something else."""
        tensor = _gathered(self.model, graph, operator)
        if tensor is None or not self.is_constant(tensor):
            return None
        name = _name_of(self.model, tensor.buffer)
        return name if name in self.tables else None

    def lookups(self, name: str) -> int:
        """How many operators look a table up."""
        return sum(self.table_of(graph, each) == name for graph in self.model.subgraphs for each in graph.operators)

    def is_constant(self, tensor: Any) -> bool:
        """Whether the file has the content of a tensor."""
        return _content(self.model, tensor) is not None


def read_foreign(path: Path) -> ForeignFile:
    """Read a file.

    Raises:
        BadInputError: it is missing, damaged, or keeps weights where they are not found.
        EdgeEmbedError: the package ai-edge-litert is not installed.
    """
    content, schema = read_content(path), load_schema()
    if content[4:8] != IDENTIFIER:
        raise BadInputError(
            f"{path}: got {content[4:8]!r} as bytes 4 to 7, expected {IDENTIFIER!r}: is it a TFLite model?"
        )
    with damaged(path):
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        if any(buffer.offset or buffer.size for buffer in model.buffers) or model.externalBuffers:
            raise BadInputError(
                f"{path}: got weights outside the flatbuffer, as files above 2 GB have them, expected all inside: "
                "such files are not taken"
            )
        tables, others = _tables(model)
        return ForeignFile(path, model, tables, others, _attached(path, content))


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong with a file that it is damaged."""
    try:
        yield
    except BadInputError:
        raise
    except MALFORMED as error:
        raise BadInputError(f"{path}: is damaged ({one_line(error)}): get it again") from error


def tensor_of(graph: Any, number: int) -> Any:
    """A tensor by its number, which a damaged file may have below 0."""
    if number < 0:
        raise IndexError(f"tensor {number}")
    return graph.tensors[number]


def operator_name(model: Any, operator: Any) -> str:
    """The name of an operator in the schema."""
    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return operator_names().get(number, str(number))


def _tables(model: Any) -> tuple[dict[str, NDArray[np.float32]], dict[str, OtherTable]]:
    tables, others = {}, {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            tensor = _gathered(model, graph, operator)
            if tensor is None:
                continue
            content = _content(model, tensor)
            if content is None:
                others.update(_dequantized(model, graph, int(operator.inputs[0])))
            elif (kind := type_names()[tensor.type]) != "float32":
                others[_text(tensor.name)] = OtherTable(kind, _size(tensor))
            else:
                tables[_name_of(model, tensor.buffer)] = content.view("<f4").reshape(tensor.shape).copy()
    return tables, others


def _gathered(model: Any, graph: Any, operator: Any) -> Any:
    """The matrix of which an operator takes rows, None where there is none."""
    if operator_name(model, operator) != "GATHER":
        return None
    options, tensor = operator.builtinOptions, tensor_of(graph, int(operator.inputs[0]))
    is_rows = options is None or (options.axis == 0 and not options.batchDims)
    return tensor if is_rows and tensor.shape is not None and len(tensor.shape) == 2 else None


def _dequantized(model: Any, graph: Any, number: int) -> dict[str, OtherTable]:
    """Name, type and size of the constant that a tensor is made of by ``DEQUANTIZE``, as converters store float16."""
    for operator in graph.operators:
        if number in operator.outputs and operator_name(model, operator) == "DEQUANTIZE":
            tensor = tensor_of(graph, int(operator.inputs[0]))
            if _content(model, tensor) is not None:
                return {_text(tensor.name): OtherTable(type_names()[tensor.type], _size(tensor))}
    return {}


def _size(tensor: Any) -> tuple[int, int]:
    rows, columns = map(int, tensor.shape)
    return rows, columns


def _name_of(model: Any, buffer: int) -> str:
    """The name of a table: that of the first tensor with its content.

    Raises:
        BadInputError: another table has that name.
    """
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    name = next(_text(tensor.name) for tensor in tensors if tensor.buffer == buffer)
    same = {tensor.buffer for tensor in tensors if _text(tensor.name) == name and _content(model, tensor) is not None}
    if len(same) > 1:
        raise BadInputError(f"got {len(same)} constants named {name!r:.200}, expected a name for each: rename them")
    return name


def _content(model: Any, tensor: Any) -> NDArray[np.uint8] | None:
    if not 0 <= tensor.buffer < len(model.buffers):
        raise IndexError(f"buffer {tensor.buffer}")
    content = model.buffers[tensor.buffer].data
    return None if content is None or len(content) == 0 else np.asarray(content, np.uint8)


def _text(name: bytes | None) -> str:
    return (name or b"").decode()


def _attached(path: Path, content: bytes) -> tuple[list[tuple[zipfile.ZipInfo, bytes]], bytes]:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        if _ARCHIVE_ENTRY.search(content):
            raise BadInputError(f"{path}: the zip archive behind the model has no end: get the file again")
        return [], b""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [(entry, archive.read(entry)) for entry in archive.infolist()], archive.comment
    except _BROKEN_ARCHIVE as error:
        raise BadInputError(f"{path}: the zip archive behind the model is damaged: {one_line(error)}") from error
