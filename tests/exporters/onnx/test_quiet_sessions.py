"""A session without the operator library prints nothing: no warning of ONNX Runtime about what an export wrote."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import edge_embed


class Language(nn.Module):
    """Positions, an encoder of torch, a tied head: the rows are looked up and multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(60, 16), nn.Embedding(8, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 60, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.words(ids) + self.places(torch.arange(ids.shape[1]))))


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quiet") / "dense.pt"
    edge_embed.save(Language(), path, example_inputs=torch.tensor([[1, 2, 3]]))
    return path


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        ("rows", {"bits": 8}),
        ("dpq", {"num_codes": 8, "num_groups": 4}),
        ("ant", {"num_anchors": 8, "nonzeros": 2.0}),
        ("tt", {"rank": 4}),
    ],
)
def test_portable_session_of_any_batch_prints_nothing(dense, tmp_path, capfd, method, sizes):
    edge_embed.compress(dense, method, modules=["words"], output=tmp_path / "m.pt", **sizes)
    edge_embed.export(tmp_path / "m.pt", "onnx", tmp_path / "m.onnx")
    capfd.readouterr()
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for batch in (1, 3):
        (logits,) = session.run(None, {"ids": np.zeros((batch, 5), np.int64)})
        assert logits.shape == (batch, 5, 60)
    assert capfd.readouterr() == ("", "")
