"""A session without the operator library prints no warning of ONNX Runtime about an exported file."""

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import edge_embed

METHODS = {
    "rows": {"bits": 8},
    "dpq": {"num_codes": 8, "num_groups": 4},
    "ant": {"num_anchors": 8, "nonzeros": 2.0},
    "tt": {"rank": 4},
}


class Language(nn.Module):
    """Positions, an encoder of torch, and a tied output layer for each method."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.ModuleDict({method: nn.Embedding(60, 16) for method in METHODS})
        self.places = nn.Embedding(8, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True, norm_first=True)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = self.places(torch.arange(ids.shape[1]))
        states = self.block(sum(table(ids) for table in self.words.values()) + places)
        return tuple(nn.functional.linear(states, table.weight) for table in self.words.values())


@pytest.mark.slow
def test_portable_session_of_any_batch_prints_nothing(tmp_path, capfd):
    source = edge_embed.save(Language(), tmp_path / "dense.pt", example_inputs=torch.tensor([[1, 2, 3]]))
    small = tmp_path / "small.pt"
    for method, sizes in METHODS.items():
        chosen = {**sizes, "output": small} if method == "tt" else sizes  # the last: what is written is traced again
        source = edge_embed.compress(source, method, modules=[f"words.{method}"], **chosen).model
    edge_embed.export(small, "onnx", tmp_path / "m.onnx")
    capfd.readouterr()
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for batch in (1, 3):
        found = session.run(None, {"ids": np.zeros((batch, 5), np.int64)})
        assert [logits.shape for logits in found] == [(batch, 5, 60)] * len(METHODS)
    assert capfd.readouterr() == ("", "")
