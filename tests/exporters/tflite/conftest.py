"""Exports of small models, run by LiteRT in this process or by both runtimes in processes of their own."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.exporters.exported import ExportedFile
from edge_embed.exporters.tflite.export import export_tflite
from edge_embed.inspection.tflite_file import TfliteModel, read_tflite
from edge_embed.lowering.graph import LoweredProgram, lower_program
from edge_embed.packed import PackedDPQ, PackedTable
from edge_embed.packed.dpq_values import quantized
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from edge_embed.targets.target import NotRunError, RunOptions
from edge_embed.targets.tflite.runtimes import TARGETS

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")


@dataclass
class Exported:
    """An exported file and the model that it was exported from."""

    model: nn.Module
    lowered: LoweredProgram
    file: ExportedFile

    @property
    def path(self) -> Path:
        return self.file.files[0]

    @property
    def table(self) -> PackedTable:
        (table,) = self.lowered.tables.values()
        return table

    @property
    def content(self) -> TfliteModel:
        return read_tflite(self.path)

    def opened(self) -> Callable[..., np.ndarray]:
        """Return a function on one interpreter: arrays in the order of the inputs -> the first output."""
        return open_litert(self.path, [declared.name for declared in self.lowered.program.inputs])


def open_litert(path: Path, names: Sequence[str]) -> Callable[..., np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    indices = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}

    def run(*inputs: Any) -> np.ndarray:
        for name, value in zip(names, inputs, strict=True):
            interpreter.resize_tensor_input(indices[name], value.shape)
        interpreter.allocate_tensors()
        for name, value in zip(names, inputs, strict=True):
            interpreter.set_tensor(indices[name], value)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return run


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def export_model(folder: Path, model: nn.Module, example: Any = None, tflite_table: str = "auto",
                 tflite_sizes: Any = None, **options: Any) -> Exported:  # fmt: skip
    with (folder / "model.pt").open("wb") as file:
        example = torch.tensor([[1, 2, 3], [4, 5, 0]]) if example is None else example
        write_archive(model, file, example, **options)
    lowered = lower_program(read_program(folder / "model.pt"))
    return Exported(model, lowered, export_tflite(lowered, folder / "model.tflite", tflite_table, tflite_sizes))


@pytest.fixture
def export(tmp_path: Path) -> Callable[..., Exported]:
    """Return a function that exports a module with example inputs into a new folder."""
    numbers = itertools.count()

    def run(*arguments: Any, **options: Any) -> Exported:
        folder = tmp_path / f"export{next(numbers)}"
        folder.mkdir()
        return export_model(folder, *arguments, **options)

    return run


@pytest.fixture(scope="module")
def export_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """Return a function that exports a model once: key of the model, function that makes model and inputs -> file.

    Tests of a module that give the same key, such as one test for each runtime, read one file.
    """
    made: dict[Any, Exported] = {}

    def run(words: Any, make: Callable[[], tuple[Any, ...]]) -> Exported:
        if words not in made:
            torch.manual_seed(0)
            made[words] = export_model(tmp_path_factory.mktemp("once"), *make())
        return made[words]

    return run


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def run_file(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that runs a file on a runtime: file, feeds -> outputs of each, or the message of a refusal."""
    target = request.param
    if lacks := target.lacks():
        pytest.skip("; ".join(f"{lack.what}: {lack.remedy}" for lack in lacks))

    def run(path: Path, cases: Sequence[dict[str, Any]]) -> Any:
        try:
            return target.open(path).attempt(cases, RunOptions(iterations=0))[0]
        except NotRunError as error:
            pytest.skip(str(error))

    return run


def packed_dpq(num_codes: int, num_groups: int, width: int = 3, rows: int = 50, shared: bool = False,
               value_type: str = "float32", padding_idx: int | None = None) -> PackedDPQ:  # fmt: skip
    """Return a table of random codes and values, some of them -0.0."""
    random = np.random.default_rng(num_codes)
    values = random.normal(size=(1 if shared else num_groups, num_codes, width)).astype(np.float32)
    values[random.random(values.shape) < 0.1] = -0.0
    stored, scales = quantized(values) if value_type == "int8" else (values.astype(value_type), None)
    codes = random.integers(0, num_codes, (rows, num_groups)).astype(np.uint16)
    return PackedDPQ.from_codes(codes, stored, padding_idx, scales)


@pytest.fixture
def make_packed() -> Callable[..., PackedDPQ]:
    return packed_dpq


@pytest.fixture
def open_file() -> Callable[..., Any]:
    return open_litert
