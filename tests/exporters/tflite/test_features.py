"""Features side by side: rows of one table beside bags of another."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing: pip install 'edge-embed[tflite]'")


class Features(nn.Module):
    """Rows and bags, concatenated along an axis."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.item = edge_embed.DPQEmbedding(20, 8, num_codes=4, num_groups=2)
        self.history = edge_embed.DPQEmbeddingBag(20, 8, num_codes=4, num_groups=2, mode="sum")
        self.axis = axis

    def forward(self, item: Tensor, history: Tensor) -> Tensor:
        return torch.cat([self.item(item), self.history(history)], self.axis)


@pytest.mark.parametrize("axis", [-1, 1])
def test_features_side_by_side_keep_dynamic_sizes(axis: int, tmp_path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    model, path = Features(axis).eval(), tmp_path / "features.tflite"
    ids = torch.arange(12).reshape(3, 4)
    edge_embed.export(model, "tflite", path, {"item": ids[:, 0], "history": ids})
    interpreter = Interpreter(str(path))
    run = interpreter.get_signature_runner()
    for batch, length in ((3, 4), (5, 2)):
        history = torch.randint(20, (batch, length))
        (found,) = run(item=history[:, 0].numpy(), history=history.numpy()).values()
        np.testing.assert_allclose(found, model(history[:, 0], history).detach(), atol=1e-6)
