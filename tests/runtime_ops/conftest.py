"""A DPQ table as plain numpy, the ONNX model around it, and CMake builds of ``runtime_ops``."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SOURCES = Path(__file__).resolve().parents[2] / "runtime_ops"


def _bits(num_codes: int) -> int:
    return max(1, (num_codes - 1).bit_length())


def _pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Put code j at bits [j*b, (j+1)*b) of a little-endian bit string: [n, D] to uint8 [n, row_bytes]."""
    planes = (codes[:, :, None] >> np.arange(bits)) & 1  # [n, D, b]
    return np.packbits(planes.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")


@dataclass
class DpqTable:
    """Random codes and values; ``rows`` is the definition, on unpacked codes."""

    num_embeddings: int = 50
    num_codes: int = 16
    num_groups: int = 6
    width: int = 4
    shared: bool = False
    padding_idx: int = -1
    codes: np.ndarray = field(init=False)  # int64 [n, D]
    values: np.ndarray = field(init=False)  # float32 [D or 1, K, s]

    def __post_init__(self) -> None:
        random = np.random.default_rng(7)
        self.codes = random.integers(0, self.num_codes, (self.num_embeddings, self.num_groups))
        books = 1 if self.shared else self.num_groups
        self.values = random.standard_normal((books, self.num_codes, self.width)).astype(np.float32)

    @property
    def packed(self) -> np.ndarray:
        return _pack(self.codes, _bits(self.num_codes))

    def rows(self, ids: np.ndarray) -> np.ndarray:
        groups = np.zeros(self.num_groups, np.int64) if self.shared else np.arange(self.num_groups)
        codes = np.minimum(self.codes, self.num_codes - 1)
        rows = self.values[groups, codes].reshape(self.num_embeddings, -1)
        if self.padding_idx >= 0:
            rows[self.padding_idx] = 0.0
        return rows[ids]

    def attributes(self) -> dict[str, int]:
        return {
            "format_version": 1,
            "bits": _bits(self.num_codes),
            "num_codes": self.num_codes,
            "num_groups": self.num_groups,
            "padding_idx": self.padding_idx,
        }

    def model(
        self,
        ids_type: int = TensorProto.INT64,
        rank: int = 2,
        packed: np.ndarray | None = None,
        values: np.ndarray | None = None,
        **attributes: int | None,
    ) -> onnx.ModelProto:
        """One node over the table. Keyword attributes replace the true ones, None leaves one out.

        There is no portable body, so that a session exists only where the kernel does.
        """
        named = {name: value for name, value in (self.attributes() | attributes).items() if value is not None}
        node = helper.make_node("DPQEmbedding", ["ids", "codes", "values"], ["rows"], domain="edge_embed", **named)
        packed = self.packed if packed is None else packed
        values = self.values if values is None else values
        tables = [numpy_helper.from_array(packed, "codes"), numpy_helper.from_array(values, "values")]
        ids = helper.make_tensor_value_info("ids", ids_type, [f"d{i}" for i in range(rank)])
        rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, None)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("edge_embed", 1)]
        graph = helper.make_graph([node], "dpq", [ids], [rows], tables)
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.fixture
def make_table() -> Callable[..., DpqTable]:
    return DpqTable


@pytest.fixture(scope="session")
def cmake_build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that builds ``runtime_ops`` with the options given, and returns the build folder."""
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake: install the package with its [dev] extra")

    def run(*command: str | Path) -> None:
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def build(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("runtime_ops")
        run(cmake, "-S", SOURCES, "-B", folder, *options)
        run(cmake, "--build", folder, "--parallel", str(os.cpu_count()))
        return folder

    return build
