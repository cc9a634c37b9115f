"""Small TFLite files with tables as Google's tools write them: litert-torch, ai-edge-quantizer, TensorFlow.

Each form was read out of a file of the tool that it names, written by litert-torch 0.10, ai-edge-quantizer 0.10 or the
converter of TensorFlow 2.21.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder, load_schema

ROWS, DIM = 60, 12
RANDOM = np.random.default_rng(11)
TABLE = RANDOM.normal(size=(ROWS, DIM)).astype(np.float32)
INT8 = RANDOM.integers(-127, 128, (ROWS, DIM)).astype(np.int8)
SCALES = (RANDOM.random(ROWS) / 50 + 0.001).astype(np.float32)
BIAS = RANDOM.normal(size=DIM).astype(np.float32)

# Operators that need a version above 1; others have 1.
VERSIONS = {"DEQUANTIZE": 6, "EMBEDDING_LOOKUP": 4, "GATHER": 5, "FULLY_CONNECTED": 5, "BATCH_MATMUL": 1}


class Scales(NamedTuple):
    """Scales and zero points that turn integers into numbers."""

    scale: Any
    zeros: Any = (0,)
    axis: int = 0


class ToolFile:
    """A file that gets one operator with each call; a call gives a tensor's number."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self.schema = load_schema()
        self.graph: Any = None
        self.begin()

    def begin(self) -> None:
        self.graph = self.schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.builder.begin(self.graph)

    def tensor(self, name: str, kind: str, shape: Sequence[int], scales: Scales | None = None, buffer: int = 0) -> int:
        number = self.builder.add_tensor(name, kind, shape, buffer)
        if scales is not None:
            made = self.schema.QuantizationParametersT()
            made.scale = np.atleast_1d(np.asarray(scales.scale, np.float32))
            made.zeroPoint, made.quantizedDimension = np.asarray(scales.zeros, np.int64), scales.axis
            self.graph.tensors[number].quantization = made
        return number

    def constant(self, name: str, array: np.ndarray, scales: Scales | None = None) -> int:
        buffer = self.builder.add_buffer(array)
        return self.tensor(name, array.dtype.name, array.shape, scales, buffer)

    def bits(self, name: str, array: np.ndarray, bits: int, scales: Scales | None = None) -> int:
        """Add integers of 4 or 2 bits, the first in the lowest bits of a byte."""
        parts = (array.reshape(-1, 8 // bits).astype(np.uint8) & (1 << bits) - 1) << np.arange(
            0, 8, bits, dtype=np.uint8
        )
        buffer = self.builder.add_buffer(np.bitwise_or.reduce(parts, 1).astype(np.uint8))
        return self.tensor(name, f"int{bits}", array.shape, scales, buffer)

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        kind: str = "float32",
        scales: Scales | None = None,
        options: str = "",
        **values: Any,
    ) -> int:
        made = self.tensor(f"{name.lower()}_{len(self.graph.tensors)}", kind, shape, scales)
        self.builder.add_operator(name, inputs, [made], options, values)
        operator = self.graph.operators[-1]
        operator.opcodeIndex = self.builder.add_code(getattr(self.schema.BuiltinOperator, name), VERSIONS.get(name, 1))
        return made

    def write(self, path: Path, inputs: Sequence[int], outputs: Sequence[int], signature: bool = False) -> Path:
        self.graph.inputs, self.graph.outputs, self.graph.name = list(inputs), list(outputs), b"main"
        self.builder.write(path, {})
        return path


def embedding_lookup(file: ToolFile, ids: int, table: int) -> int:
    """Add litert-torch's form: flat ids, the table second."""
    flat = file.add("RESHAPE", [ids, file.constant("flat", np.array([4], np.int32))], [4], "int32")
    return file.add("EMBEDDING_LOOKUP", [flat, table], [4, DIM])


def gather(file: ToolFile, ids: int, table: int, shape: Sequence[int] = (1, 4, DIM), **given: Any) -> int:
    """Add the form of TensorFlow's converter: tf.gather, nn.embedding_lookup, Keras' Embedding."""
    kinds = {name: given.pop(name) for name in ("kind", "scales") if name in given}
    values = {"axis": 0, "batchDims": 0, **given}
    return file.add("GATHER", [table, ids], shape, options="GatherOptions", **kinds, **values)


def dequantized(file: ToolFile, table: int, shape: Sequence[int] = (ROWS, DIM)) -> int:
    """Add the form of ai-edge-quantizer with explicit_dequantize, or TensorFlow with float16 weights."""
    return file.add("DEQUANTIZE", [table], shape)


def _in_blocks(file: ToolFile, ids: int) -> int:
    """Add ai-edge-quantizer's BLOCKWISE: scales are a tensor of float16 [n, blocks]."""
    table = file.bits("table", INT8 >> 4, 4)
    scales = file.constant("table_scales", RANDOM.random((ROWS, 3)).astype(np.float16))
    made = file.schema.QuantizationParametersT()
    made.detailsType = file.schema.QuantizationDetails.BlockwiseQuantization
    made.details = file.schema.BlockwiseQuantizationT()
    made.details.scales, made.details.zeroPoints, made.details.blockSize = scales, -1, 4
    file.graph.tensors[table].quantization = made
    return embedding_lookup(file, ids, table)


def _whole_integers(file: ToolFile, ids: int) -> int:
    """Add TensorFlow's full integer quantisation: rows stay int8."""
    scales = Scales(0.03, (9,))
    return gather(file, ids, file.constant("table", INT8, scales), kind="int8", scales=scales)


def _then_dequantized(file: ToolFile, ids: int, **given: Any) -> int:
    """Add TensorFlow's dynamic range quantisation: rows are looked up as int8 and dequantised afterwards."""
    scales = Scales(0.03, (given.pop("zero", 0),))
    stored, shape = given.pop("stored", INT8), given.pop("shape", (1, 4, DIM))
    table = file.constant("table", stored, scales)
    rows = gather(file, ids, table, shape, kind=stored.dtype.name, scales=scales, **given)
    return file.add("DEQUANTIZE", [rows], shape)


def _one_hot(file: ToolFile, ids: int) -> int:
    given = file.constant("depth", np.array(ROWS, np.int32)), file.constant("on", np.array(1, np.float32))
    off = file.constant("off", np.array(0, np.float32))
    return file.add("ONE_HOT", [ids, *given, off], [1, 4, ROWS], options="OneHotOptions", axis=-1)


def _one_hot_product(file: ToolFile, ids: int) -> int:
    """Add TensorFlow's tf.matmul(tf.one_hot(ids, n), table) + bias, then relu."""
    inputs = [_one_hot(file, ids), file.constant("table", TABLE.T.copy()), file.constant("bias", BIAS)]
    return file.add("FULLY_CONNECTED", inputs, [1, 4, DIM], options="FullyConnectedOptions", keepNumDims=True,
                    fusedActivationFunction=1)  # fmt: skip


def _flat_product(file: ToolFile, ids: int) -> int:
    """Add the same product without bias, with rows one after the other."""
    inputs = [_one_hot(file, ids), file.constant("table", TABLE.T.copy()), -1]
    return file.add("FULLY_CONNECTED", inputs, [4, DIM], options="FullyConnectedOptions", keepNumDims=False)


def _batch_product(file: ToolFile, ids: int, stored: np.ndarray = TABLE[np.newaxis], **options: Any) -> int:
    """Add TensorFlow's tf.matmul of tf.one_hot with a table of three axes."""
    inputs = [_one_hot(file, ids), file.constant("table", stored)]
    return file.add("BATCH_MATMUL", inputs, [1, 4, DIM], options="BatchMatMulOptions", **options)


def _gather_nd(file: ToolFile, ids: int, stored: np.ndarray, shape: Sequence[int], made: Sequence[int]) -> int:
    """Add litert-torch's form of w[ids], or tf.gather_nd."""
    shaped = file.add("RESHAPE", [ids, file.constant("sizes", np.array(shape, np.int32))], shape, "int32")
    return file.add("GATHER_ND", [file.constant("table", stored), shaped], made)


_ROW = Scales(SCALES, np.zeros(ROWS))
FORMS: dict[str, Callable[[ToolFile, int], int]] = {
    "litert-torch": lambda file, ids: embedding_lookup(file, ids, file.constant("table", TABLE)),
    "quantizer int8": lambda file, ids: embedding_lookup(file, ids, file.constant("table", INT8, _ROW)),
    "quantizer int4": lambda file, ids: embedding_lookup(file, ids, file.bits("table", INT8 >> 4, 4, _ROW)),
    "quantizer int2": lambda file, ids: embedding_lookup(file, ids, file.bits("table", INT8 >> 6, 2, _ROW)),
    "quantizer one scale": lambda file, ids: embedding_lookup(file, ids, file.constant("table", INT8, Scales(0.02))),
    "quantizer blocks": _in_blocks,
    "quantizer explicit int8": lambda file, ids: embedding_lookup(
        file, ids, dequantized(file, file.constant("table", INT8, _ROW))
    ),
    "quantizer explicit int4": lambda file, ids: embedding_lookup(
        file, ids, dequantized(file, file.bits("table", INT8 >> 4, 4, _ROW))
    ),
    "quantizer float16": lambda file, ids: embedding_lookup(
        file, ids, dequantized(file, file.constant("table", TABLE.astype(np.float16)))
    ),
    "tensorflow float16": lambda file, ids: gather(
        file, ids, dequantized(file, file.constant("table", TABLE.astype(np.float16)))
    ),
    "tensorflow dynamic range": _then_dequantized,
    "tensorflow int16": lambda file, ids: _then_dequantized(file, ids, stored=INT8.astype(np.int16) * 7),
    "tensorflow uint8": lambda file, ids: _then_dequantized(file, ids, stored=INT8.view(np.uint8), zero=128),
    "tensorflow whole integers": _whole_integers,
    "tensorflow columns": lambda file, ids: gather(
        file, ids, file.constant("table", TABLE.T.copy()), (DIM, 1, 4), axis=1
    ),
    "tensorflow columns int8": lambda file, ids: _then_dequantized(
        file, ids, stored=INT8.T.copy(), shape=(DIM, 1, 4), axis=1
    ),
    "tensorflow three axes": lambda file, ids: gather(
        file, ids, file.constant("table", TABLE.reshape(ROWS, 3, 4)), (1, 4, 3, 4)
    ),
    "tensorflow middle axis": lambda file, ids: gather(
        file, ids, file.constant("table", TABLE.reshape(3, ROWS, 4)), (3, 1, 4, 4), axis=-2
    ),
    "tensorflow batch of one": lambda file, ids: gather(
        file, ids, file.constant("table", TABLE[np.newaxis]), axis=1, batchDims=1
    ),
    "tensorflow gather_nd": lambda file, ids: _gather_nd(file, ids, TABLE, (4, 1), (4, DIM)),
    "tensorflow gather_nd of two": lambda file, ids: _gather_nd(
        file, ids, TABLE.reshape(6, 10, DIM), (2, 2), (2, DIM)
    ),
    "tensorflow one_hot": _one_hot_product,
    "tensorflow one_hot flat": _flat_product,
    "tensorflow one_hot batch": _batch_product,
    "tensorflow one_hot transposed": lambda file, ids: _batch_product(file, ids, TABLE.T.copy(), adjY=True),
}  # fmt: skip


def write_form(path: Path, form: str, ids_type: str = "int32") -> Path:
    """Write a file that looks rows up in one form; its output is the lookup's result."""
    file = ToolFile()
    ids = file.tensor("ids", ids_type, [1, 4])
    return file.write(path, [ids], [FORMS[form](file, ids)])


def move_behind(path: Path, least: int = 1) -> Path:
    """Move contents behind the flatbuffer, as ai-edge-quantizer does from 256 KiB and converters from 2 GB."""
    import flatbuffers

    schema = load_schema()
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    contents = {number: bytes(buffer.data) for number, buffer in enumerate(model.buffers)
                if buffer.data is not None and len(buffer.data) >= least}  # fmt: skip
    at = 0
    for _ in range(2):  # the second time offsets are known, and the size of the flatbuffer stays
        begin = -(-at // 16) * 16
        for number, content in contents.items():
            buffer = model.buffers[number]
            buffer.data, buffer.offset, buffer.size = None, max(begin, 1), len(content)
            begin = -(-(begin + len(content)) // 16) * 16
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        packed = bytes(builder.Output())
        at = len(packed)
    file = bytearray(packed.ljust(begin, b"\0"))
    for number, content in contents.items():
        offset = model.buffers[number].offset
        file[offset : offset + len(content)] = content
    path.write_bytes(file)
    return path
