"""A small model with a trainable, a frozen and a dense table, in every kind of file."""

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.packed import save_tables
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = DPQEmbedding(500, 32, 16, 8, padding_idx=3)
        self.topic = DPQEmbedding(500, 32, 5, 4, variant="vq", share_subspaces=True)
        self.topic.freeze()
        self.position = nn.Embedding(20, 32)
        self.output = nn.Linear(32, 2)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        rows = self.token(ids) + self.token(ids % 100) + self.topic(ids)  # one table, looked up twice
        return {"logits": self.output(rows + self.position(ids % 20))}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with model.pt, model.onnx, external.onnx (+ .data), tables.safetensors and torch.save files."""
    folder = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    model = Words()
    vocabulary = [f"w{index}" for index in range(500)]
    with (folder / "model.pt").open("wb") as file:
        write_archive(model, file, torch.randint(0, 500, (2, 3)), None, vocabulary, {"task": "words"})
    lowered = lower_program(read_program(folder / "model.pt"))
    export_onnx(lowered, folder / "model.onnx", "never")
    export_onnx(lowered, folder / "external.onnx", "always")
    save_tables(folder / "tables.safetensors", lowered.tables)
    torch.save(model, folder / "module.pt")
    torch.save(model.state_dict(), folder / "state.pt")
    torch.save(model, folder / "old.pt", _use_new_zipfile_serialization=False)
    return folder


@pytest.fixture
def files(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "files"))


@pytest.fixture
def changed(files: Path) -> Callable[..., Path]:
    """Return a function that loads an ONNX file, changes or replaces its model, and saves it as changed.onnx."""

    def change(step: Callable[[onnx.ModelProto], object], name: str = "model.onnx") -> Path:
        model = onnx.load(files / name, load_external_data=False)
        result = step(model)
        path = files / "changed.onnx"
        path.write_bytes((result if isinstance(result, onnx.ModelProto) else model).SerializeToString())
        return path

    return change
