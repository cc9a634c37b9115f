"""One small model, saved and exported once, and a check of copies of it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import edge_embed


class Tagger(nn.Module):
    """A table and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(300, 16, num_codes=16, num_groups=4, padding_idx=0)
        self.tags = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.tags(self.words(ids))}


@dataclass(frozen=True)
class Project:
    """A user's folder: ``model.pt``, ``model.onnx``, and a budget."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model.pt"

    @property
    def exported(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def budget(self) -> Path:
        return self.folder / "edge-embed.toml"

    def write_budget(self, text: str = "") -> Path:
        self.budget.write_text(f'model = "model.pt"\nexported = "model.onnx"\n{text}')
        return self.budget

    def edit(self, change: Callable[[onnx.ModelProto], None]) -> None:
        """Change the exported file."""
        model = onnx.load(self.exported)
        change(model)
        self.exported.write_bytes(model.SerializeToString())

    def flip_code_bit(self) -> None:
        """Change a code of row 7 of the table."""

        def change(model: onnx.ModelProto) -> None:
            (codes,) = [tensor for tensor in model.graph.initializer if tensor.name == "words.codes"]
            array = numpy_helper.to_array(codes).copy()
            array[7, 0] ^= 1
            codes.CopyFrom(numpy_helper.from_array(array, codes.name))

        self.edit(change)

    def grow(self, share: float) -> int:
        """Enlarge the file's metadata by about that share, and return the number of added bytes."""
        before = self.exported.stat().st_size
        self.edit(lambda model: model.metadata_props.add(key="notes", value="x" * int(before * share)) and None)
        return self.exported.stat().st_size - before

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("project")
    edge_embed.save(Tagger(), folder / "model.pt", torch.tensor([[3, 1, 2]]))
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx")
    return folder


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Project:
    """Return a separate copy with a budget without limits."""
    folder = tmp_path / "project"
    shutil.copytree(original, folder)
    copy = Project(folder)
    copy.write_budget()
    return copy
