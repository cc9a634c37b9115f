"""An exported model with every operator of sparse activations, and its outputs in torch."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import edge_embed

OPERATORS = ("Sparsemax", "Entmax15", "Entmax", "TopKSparsemax")


class Activations(nn.Module):
    """Sparse activations of scores [B, 4, T, S], side by side: [B, 16, T, S]."""

    def __init__(self) -> None:
        super().__init__()
        self.learned = edge_embed.Entmax(num_heads=4)
        with torch.no_grad():
            self.learned.alpha_logit.copy_(torch.linspace(-3, 3, 4))

    def forward(self, scores: Tensor) -> dict[str, Tensor]:
        fixed = edge_embed.sparsemax(scores), edge_embed.entmax15(scores), edge_embed.topk_sparsemax(scores, 3)
        return {"out0": torch.cat((*fixed, self.learned(scores)), 1)}


def export_activations(path: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Write the model, and return its inputs and the probabilities that it has to give."""
    model = Activations()
    scores = torch.randn(2, 4, 5, 70, generator=torch.Generator().manual_seed(0)) * 2
    scores[0, :, 1, 3:] = -torch.inf
    scores[1, :, 2, 5] = torch.nan
    edge_embed.export(model, "onnx", path, example_inputs=scores)
    with torch.no_grad():
        return {"scores": scores.numpy()}, model.double()(scores.double())["out0"].numpy()
