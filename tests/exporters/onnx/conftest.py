"""Exports of small models, and the three ways to run an exported file."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from edge_embed.exporters.onnx.export import ExportedFile, export_onnx
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.lowering.graph import LoweredProgram, lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.program import Program
from edge_embed.program.reader import read_program
from edge_embed.runtime.session import create_session
from edge_embed.targets.reference import open_reference

PATHS = ("library", "portable", "reference")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@dataclass
class Exported:
    """An exported file and the model that it was exported from."""

    model: nn.Module
    program: Program
    lowered: LoweredProgram
    file: ExportedFile
    _runners: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.file.files[0]

    def run(self, way: str, *inputs: torch.Tensor) -> list[np.ndarray]:
        """Return the outputs of the file; the way is ``library``, ``portable`` or ``reference``."""
        if way not in self._runners:
            self._runners[way] = (
                open_reference(self.path)
                if way == "reference"
                else create_session(self.path, portable=way == "portable")
            )
        names = [declared.name for declared in self.program.inputs]
        feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return self._runners[way].run(None, feed)

    def trained(self, *inputs: torch.Tensor) -> list[np.ndarray]:
        """Return the outputs of the training form in eval mode."""
        return [output.numpy() for output in self.program.run(*inputs)]

    def assert_bit_exact(self, *inputs: torch.Tensor) -> None:
        expected = self.trained(*inputs)
        for way in PATHS:
            for got, wanted in zip(self.run(way, *inputs), expected, strict=True):
                assert got.dtype == wanted.dtype, way
                assert got.shape == wanted.shape, way
                assert got.tobytes() == wanted.tobytes(), way


def export_model(folder: Path, model: nn.Module, example: Any = None, external_data: Any = "auto",
                 **options: Any) -> Exported:  # fmt: skip
    with (folder / "model.pt").open("wb") as file:
        write_archive(model, file, torch.tensor([[1, 2, 3], [4, 5, 0]]) if example is None else example, **options)
    program = read_program(folder / "model.pt")
    lowered = lower_program(program)
    return Exported(model.eval(), program, lowered, export_onnx(lowered, folder / "model.onnx", external_data))


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Exported]:
    """Return a function that exports a module with example inputs into a new folder."""
    numbers = itertools.count()

    def run(model: nn.Module, *arguments: Any, **options: Any) -> Exported:
        folder = tmp_path / f"export{next(numbers)}"
        folder.mkdir()
        return export_model(folder, model, *arguments, **options)

    return run


@pytest.fixture(scope="session")
def one_table(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Return one table with a padding row, exported once for all tests that only read or run it."""
    torch.manual_seed(0)
    return export_model(tmp_path_factory.mktemp("one_table"), table(num_codes=11, padding_idx=-1))


@pytest.fixture(scope="session")
def large_table(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Return a table with more than 64 KB of codes and few values."""
    torch.manual_seed(0)
    return export_model(tmp_path_factory.mktemp("large_table"), table(num_embeddings=50_000, num_codes=16))


class TablesAddedUp(nn.Module):
    """A sum of the outputs of several modules for the same ids."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return sum(part(ids) for part in self.parts)


@pytest.fixture
def add_up() -> type[TablesAddedUp]:
    return TablesAddedUp


def table(num_codes: int = 5, num_embeddings: int = 20, embedding_dim: int = 12, num_groups: int = 3,
          **options: Any) -> DPQEmbedding:  # fmt: skip
    layer = DPQEmbedding(num_embeddings, embedding_dim, num_codes, num_groups, init_scale=1.0, **options)
    with torch.no_grad():
        layer(torch.randint(0, num_embeddings, (64,)))
    return layer


@pytest.fixture
def make_table() -> Callable[..., DPQEmbedding]:
    """Return a function that makes a table whose running statistics differ from the initial ones."""
    return table


def optimized(path: Path, level: str, portable: bool) -> onnx.ModelProto:
    """Return the optimised model that ONNX Runtime makes of a file."""
    result = path.with_name(f"optimized_{level}_{portable}.onnx")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = str(result)
    create_session(path, portable, options)
    return onnx.load(result)


@pytest.fixture
def optimize() -> Callable[..., onnx.ModelProto]:
    return optimized


def _subgraphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    found = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                if inner.node or inner.initializer:
                    found += _subgraphs(inner)
    return found


def tensor_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of all constants of a model and its subgraphs."""
    total = 0
    for graph in _subgraphs(model.graph):
        tensors = list(graph.initializer)
        tensors += [a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute if a.HasField("t")]
        total += sum(numpy_helper.to_array(tensor).nbytes for tensor in tensors)
    return total


@pytest.fixture
def count_bytes() -> Callable[[onnx.ModelProto], int]:
    return tensor_bytes


@pytest.fixture
def flip_bit() -> Callable[..., None]:
    """Return a function that flips one bit of a stored tensor, in an ONNX file without external weights.

    ``flip_bit(path, "embedding.codes", byte=3, bit=0)`` damages a payload; the test that calls it must see the change.
    """

    def run(path: Path, tensor: str, byte: int, bit: int) -> None:
        model = onnx.load(path)
        (stored,) = [item for item in model.graph.initializer if item.name == tensor]
        content = bytearray(stored.raw_data)
        content[byte] ^= 1 << bit
        stored.raw_data = bytes(content)
        path.write_bytes(model.SerializeToString())

    return run


@pytest.fixture(scope="session")
def shapes() -> Sequence[tuple[int, ...]]:
    """Return shapes of rank 2, empty ones included, that differ from every example."""
    return ((1, 1), (7, 2), (2, 50), (0, 4), (3, 0), (0, 0))
