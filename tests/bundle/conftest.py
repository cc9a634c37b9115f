"""Bundles of small models, written once a process."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edge_embed

TARGETS = ["onnx", "tflite"]


class Tagger(nn.Module):
    """Scores [batch, sequence, 5] of ids [batch, sequence]."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(60, 16, num_codes=8, num_groups=4)
        self.tags = nn.Linear(16, 5)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.tags(self.words(ids))
        return scores


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved model with a vocabulary and metadata."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    metadata = {"task": "tags of words", "licence": "mit"}
    example = torch.tensor([[17, 4, 25]])
    return edge_embed.save(Tagger(), path, example, vocabulary=[f"w{i}" for i in range(60)], metadata=metadata)


@pytest.fixture(scope="session")
def bundles(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folder of a bundle for each target, not to be changed."""
    folder = tmp_path_factory.mktemp("bundles")
    for target in TARGETS:
        edge_embed.export(saved, target, folder / target, bundle=True, progress=lambda *_: None)
    return {target: folder / target for target in TARGETS}
