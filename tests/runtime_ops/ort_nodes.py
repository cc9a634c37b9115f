"""Tables of every method as plain numpy, the ONNX models around them, and sessions with the operator library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import edge_embed


def open_session(model: onnx.ModelProto | Path, threads: int = 1, library: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4  # errors are raised; the log would only repeat them
    options.intra_op_num_threads = threads
    options.register_custom_ops_library(str(library or edge_embed.get_library_path()))
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(session: ort.InferenceSession, *arguments: np.ndarray) -> np.ndarray:
    return run_all(session, *arguments)[0]


def run_all(session: ort.InferenceSession, *arguments: np.ndarray) -> list[np.ndarray]:
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, arguments, strict=False)))


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


def assert_close(got: np.ndarray, dtype: type, exact: np.ndarray, magnitude: np.ndarray) -> None:
    """Assert a margin of 4 units in the last place of the sum of the terms' magnitudes."""
    assert got.dtype == dtype
    assert got.shape == exact.shape
    limits = np.finfo(dtype)
    allowed = 4 * float(limits.eps) * magnitude + float(limits.smallest_subnormal)
    worst = np.abs(got.astype(np.float64) - exact) - allowed
    assert (worst <= 0).all(), f"{np.count_nonzero(worst > 0)} of {worst.size} numbers are too far away"


def make_graph_input(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn the table into an input of the graph, so that no run knows it in advance."""
    for tensor in model.graph.initializer:
        info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, None)
        model.graph.input.append(info)
    del model.graph.initializer[:]
    return model


@dataclass
class Table:
    """The common part of all methods' tables; a method defines its tensors and rows."""

    name: ClassVar[str]  # prefix of the operators
    num_embeddings: int = 50
    padding_idx: int = -1
    dtype: type = np.float32
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(7)
        self.fill()

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(self.dtype)

    def fill(self) -> None:
        """Generate the content."""
        raise NotImplementedError

    def tensors(self) -> dict[str, np.ndarray]:
        """Return inputs of the nodes after ids, offsets or hidden, in order."""
        raise NotImplementedError

    def attributes(self) -> dict[str, int]:
        return {"format_version": 1, "padding_idx": self.padding_idx}

    def sums(self, absolute: bool) -> np.ndarray:
        """Return all rows in float64 [n, d] by definition; with ``absolute`` the sums of the terms' magnitudes."""
        raise NotImplementedError

    @property
    def magnitudes(self) -> np.ndarray:
        return self.padded(self.sums(absolute=True))

    @property
    def rows64(self) -> np.ndarray:
        return self.padded(self.sums(absolute=False))

    def rows(self, ids: np.ndarray) -> np.ndarray:
        return self.rows64.astype(self.dtype)[ids]

    @property
    def dim(self) -> int:
        return self.rows64.shape[1]

    def padded(self, rows: np.ndarray) -> np.ndarray:
        if self.padding_idx >= 0:
            rows[self.padding_idx] = 0.0
        return rows

    def model(
        self,
        ids_type: int = TensorProto.INT64,
        rank: int = 2,
        tensors: Mapping[str, np.ndarray] | None = None,
        **attributes: int | None,
    ) -> onnx.ModelProto:
        """Return a model of one embedding node.

        Tensors and keyword attributes replace the true ones, None omits one.
        """
        return self.node_model("Embedding", [("ids", ids_type, rank)], tensors, attributes)

    def bag_model(
        self,
        mode: int = 0,
        weighted: int = 0,
        ids_type: int = TensorProto.INT64,
        tensors: Mapping[str, np.ndarray] | None = None,
        **attributes: int | None,
    ) -> onnx.ModelProto:
        """Return a model of one bag node; the graph always has an input ``sample_weights``."""
        weights = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = [("ids", ids_type, 1), ("offsets", TensorProto.INT64, 1), ("sample_weights", weights, 1)]
        return self.node_model("EmbeddingBag", inputs, tensors, {"mode": mode, "weighted": weighted} | attributes)

    def logits_model(
        self,
        dtype: type = np.float32,
        rank: int = 2,
        tensors: Mapping[str, np.ndarray] | None = None,
        **attributes: int | None,
    ) -> onnx.ModelProto:
        """Return a model of one logits node."""
        hidden = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.node_model("Logits", [("hidden", hidden, rank)], tensors, attributes, [hidden])

    def topk_model(
        self,
        k: int,
        biased: int = 0,
        dtype: type = np.float32,
        rank: int = 2,
        tensors: Mapping[str, np.ndarray] | None = None,
        **attributes: int | None,
    ) -> onnx.ModelProto:
        """Return a model of one top-k node; the graph always has an input ``bias``."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs = [("hidden", kind, rank), ("bias", kind, 1)]
        attributes = {"k": k, "biased": biased} | attributes
        return self.node_model("TopK", inputs, tensors, attributes, [kind, TensorProto.INT64])

    def node_model(
        self,
        use: str,
        inputs: list[tuple[str, int, int]],
        tensors: Mapping[str, np.ndarray] | None,
        attributes: Mapping[str, int | None],
        outputs: list[int] | None = None,
    ) -> onnx.ModelProto:
        """Return a model of one node without a portable body: a session requires the kernel."""
        tensors = self.tensors() | dict(tensors or {})
        named = {name: value for name, value in (self.attributes() | dict(attributes)).items() if value is not None}
        names = [name for name, _, _ in inputs] + list(tensors)
        outputs = outputs or [helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))]
        out = [helper.make_tensor_value_info(f"out{i}", kind, None) for i, kind in enumerate(outputs)]
        node = helper.make_node(self.name + use, names, [info.name for info in out], domain="edge_embed", **named)
        infos = [
            helper.make_tensor_value_info(name, kind, [f"{name}{i}" for i in range(rank)])
            for name, kind, rank in inputs
        ]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("edge_embed", 1)]
        constants = [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()]
        graph = helper.make_graph([node], self.name, infos, out, constants)
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _bits(num_codes: int) -> int:
    return max(1, (num_codes - 1).bit_length())


def _pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Put code j at bits [j*b, (j+1)*b) of a little-endian bit string: [n, D] to uint8 [n, row_bytes]."""
    planes = (codes[:, :, None] >> np.arange(bits)) & 1  # [n, D, b]
    return np.packbits(planes.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")


@dataclass
class DpqTable(Table):
    """Random codes and values; the rows are defined by unpacked codes."""

    name: ClassVar[str] = "DPQ"
    num_codes: int = 16
    num_groups: int = 6
    width: int = 4
    shared: bool = False
    codes: np.ndarray = field(init=False)  # int64 [n, D]
    values: np.ndarray = field(init=False)  # [D or 1, K, s]

    def fill(self) -> None:
        self.codes = self.random.integers(0, self.num_codes, (self.num_embeddings, self.num_groups))
        self.values = self.normal(1 if self.shared else self.num_groups, self.num_codes, self.width)

    @property
    def packed(self) -> np.ndarray:
        return _pack(self.codes, _bits(self.num_codes))

    def tensors(self) -> dict[str, np.ndarray]:
        return {"codes": self.packed, "values": self.values}

    def attributes(self) -> dict[str, int]:
        sizes = {"bits": _bits(self.num_codes), "num_codes": self.num_codes, "num_groups": self.num_groups}
        return super().attributes() | sizes

    def sums(self, absolute: bool) -> np.ndarray:
        groups = np.zeros(self.num_groups, np.int64) if self.shared else np.arange(self.num_groups)
        codes = np.minimum(self.codes, self.num_codes - 1)
        rows = self.values[groups, codes].reshape(self.num_embeddings, -1).astype(np.float64)
        return np.abs(rows) if absolute else rows


@dataclass
class Int8DpqTable(DpqTable):
    """Int8 values with a scale for each group of values; the rows are float32."""

    value_scales: np.ndarray = field(init=False)  # [D or 1]

    def fill(self) -> None:
        super().fill()
        self.values = np.clip(np.rint(self.values * 50), -127, 127).astype(np.int8)
        self.value_scales = self.random.uniform(0.001, 0.1, len(self.values)).astype(np.float32)

    def tensors(self) -> dict[str, np.ndarray]:
        return super().tensors() | {"value_scales": self.value_scales}

    def sums(self, absolute: bool) -> np.ndarray:
        groups = super().sums(absolute).reshape(self.num_embeddings, self.num_groups, -1)
        products = groups.astype(np.float32) * self.value_scales[:, None]  # rounded only once
        return products.reshape(self.num_embeddings, -1).astype(np.float64)


@dataclass
class AntTable(Table):
    """A random sparse transform with the share `density` of weights, row 1 empty, and its anchors."""

    name: ClassVar[str] = "ANT"
    num_anchors: int = 20
    columns: int = 24
    density: float = 0.2
    id_dtype: type = np.uint8
    weight_dtype: type = np.float32
    transform: np.ndarray = field(init=False)  # float64 [n, A], as stored
    anchors: np.ndarray = field(init=False)  # [A, d]

    def fill(self) -> None:
        shape = (self.num_embeddings, self.num_anchors)
        weights = np.abs(self.random.standard_normal(shape)) + 0.1
        if self.weight_dtype is np.int8:
            weights = np.ceil(weights * 30).clip(1, 127)
        kept = self.random.random(shape) < self.density
        kept[1:2] = False
        if self.padding_idx >= 0:
            kept[self.padding_idx] = False
        self.transform = np.where(kept, weights.astype(self.weight_dtype).astype(np.float64), 0)
        self.anchors = self.normal(self.num_anchors, self.columns)

    @property
    def scale(self) -> np.float32:
        return np.float32(0.03 if self.weight_dtype is np.int8 else 1.0)

    def tensors(self) -> dict[str, np.ndarray]:
        row, anchor = np.nonzero(self.transform)
        counts = np.bincount(row, minlength=self.num_embeddings)
        return {
            "row_offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            "anchor_ids": anchor.astype(self.id_dtype),
            "weights": self.transform[row, anchor].astype(self.weight_dtype),
            "weight_scale": np.array([self.scale]),
            "anchors": self.anchors,
        }

    def sums(self, absolute: bool) -> np.ndarray:
        anchors = self.anchors.astype(np.float64)
        return float(self.scale) * (self.transform @ (np.abs(anchors) if absolute else anchors))


@dataclass
class TtTable(Table):
    """Random cores; with ``ring`` > 1 a tensor ring."""

    name: ClassVar[str] = "TT"
    row_shape: tuple[int, ...] = (3, 4, 5)
    col_shape: tuple[int, ...] = (2, 3, 4)
    rank: int = 5
    ring: int = 1
    cores: list[np.ndarray] = field(init=False)  # of [I_k, R_{k-1}, J_k, R_k]

    def fill(self) -> None:
        ranks = [self.ring] + [self.rank] * (len(self.row_shape) - 1) + [self.ring]
        sizes = zip(self.row_shape, ranks[:-1], self.col_shape, ranks[1:], strict=True)
        self.cores = [self.normal(*size) for size in sizes]

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"core_{k}": core for k, core in enumerate(self.cores)}

    def attributes(self) -> dict[str, int]:
        return super().attributes() | {"num_embeddings": self.num_embeddings}

    def sums(self, absolute: bool) -> np.ndarray:
        cores = [np.abs(core) if absolute else core for core in (core.astype(np.float64) for core in self.cores)]
        product = cores[0].transpose(0, 2, 1, 3)  # [I, J, R_0, R_1]
        for core in cores[1:]:
            product = np.einsum("ijar,krls->ikjlas", product, core)
            ids, digits, columns, more, *ranks = product.shape
            product = product.reshape(ids * digits, columns * more, *ranks)
        return np.ascontiguousarray(np.trace(product, axis1=2, axis2=3)[: self.num_embeddings])


TABLES: dict[str, type[Table]] = {"dpq": DpqTable, "ant": AntTable, "tt": TtTable}
