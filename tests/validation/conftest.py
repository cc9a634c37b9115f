"""Small real models, saved, lowered and exported once; tests change copies of the exported files."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.lowering.graph import LoweredProgram, lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.program import Program
from edge_embed.program.reader import read_program
from edge_embed.validation import sizes
from edge_embed.validation.fresh_process import Fresh
from edge_embed.validation.validate import ValidationOptions, ValidationReport, validate_export

ROWS, FROZEN_ROWS, DIM = 600, 620, 48  # the smallest size at which every table tensor is external


@pytest.fixture(autouse=True)
def _memory_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the process that measures memory; test_size.py, which tests it, overrides this fixture."""
    monkeypatch.setattr(
        sizes, "measure_fresh", lambda path, library, feeds: Fresh(1 << 20, 1 << 20, 0.1, 0.1, 1 << 20, 0, 0)
    )


class NextWord(nn.Module):
    """An LSTM over two tables: trainable (sx, separate) and frozen (vq, shared)."""

    def __init__(self) -> None:
        super().__init__()
        self.word = DPQEmbedding(ROWS, DIM, 7, 3, padding_idx=2)
        self.topic = DPQEmbedding(FROZEN_ROWS, DIM, 16, 3, variant="vq", share_subspaces=True).freeze()
        self.lstm = nn.LSTM(DIM, 6, batch_first=True)
        self.head = nn.Linear(6, ROWS)

    def forward(self, ids, features):
        state, _ = self.lstm(self.word(ids) + self.topic(ids) + features)
        return {"logits": self.head(state), "padded": ids == 2}


def make_model() -> NextWord:
    torch.manual_seed(0)
    model = NextWord()
    with torch.no_grad():  # untrained tables are so small that little errors would not show
        model.word.value.mul_(10)
        model.topic.value.mul_(10)
    return model


def make_program(model: nn.Module, example: tuple[torch.Tensor, ...], folder: Path) -> Program:
    path = folder / "model.pt"
    with path.open("wb") as file:
        write_archive(model, file, example)
    return read_program(path)


@dataclass
class Exported:
    """A program and its exported file, ready to be changed."""

    program: Program
    lowered: LoweredProgram
    path: Path

    def validate(self, **options: object) -> ValidationReport:
        chosen = ValidationOptions(**{"iterations": 0, **options})
        return validate_export(self.program, self.lowered, self.path, chosen)

    @property
    def data(self) -> Path:
        return self.path.with_name(self.path.name + ".data")

    def edit(self, change: Callable[[onnx.ModelProto], None]) -> None:
        """Change the model and keep its external data."""
        model = onnx.load(self.path, load_external_data=False)
        change(model)
        self.path.write_bytes(model.SerializeToString())

    def flip(self, tensor: str, byte: int, bit: int) -> None:
        """Flip one bit of an initializer, in the model or in the file beside it."""

        def change(model: onnx.ModelProto) -> None:
            (found,) = (item for item in model.graph.initializer if item.name == tensor)
            if found.data_location == onnx.TensorProto.EXTERNAL:
                place = {item.key: item.value for item in found.external_data}
                content = bytearray(self.data.read_bytes())
                content[int(place["offset"]) + byte] ^= 1 << bit
                self.data.write_bytes(content)
            else:
                content = bytearray(found.raw_data)
                content[byte] ^= 1 << bit
                found.raw_data = bytes(content)

        self.edit(change)


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exported]:
    folder = tmp_path_factory.mktemp("originals")
    program = make_program(make_model(), (torch.randint(3, ROWS, (2, 5)), torch.randn(2, 5, DIM)), folder)
    lowered = lower_program(program)
    found = {}
    for storage in ("never", "always"):
        (folder / storage).mkdir()
        path = folder / storage / "model.onnx"
        export_onnx(lowered, path, storage)
        found[storage] = Exported(program, lowered, path)
    return found


@pytest.fixture(params=["never", "always"])
def exported(request, originals, tmp_path) -> Exported:
    """Return a copy of the exported file, with internal and with external weights in turn."""
    return copy_of(originals[request.param], tmp_path)


@pytest.fixture
def inline(originals, tmp_path) -> Exported:
    return copy_of(originals["never"], tmp_path)


@pytest.fixture
def external(originals, tmp_path) -> Exported:
    return copy_of(originals["always"], tmp_path)


def copy_of(original: Exported, folder: Path) -> Exported:
    target = folder / "copy"
    shutil.copytree(original.path.parent, target)
    return Exported(original.program, original.lowered, target / original.path.name)
