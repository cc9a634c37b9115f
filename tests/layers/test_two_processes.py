"""DistributedDataParallel on two processes: no parameter unused, equal gradients and weights."""

from pathlib import Path

import pytest
import torch

from .two_processes import run_in_two_processes

_LINES = """
layer = edge_embed.{layer}
model = DistributedDataParallel(layer)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    ids = torch.randint(0, 20, (3, 4)) if step or rank else torch.zeros(3, 4, dtype=torch.int64)  # padding only
    optimizer.zero_grad()
    loss = (model(ids) * torch.arange(12)).sum()
    (loss + regularization_loss(layer)).backward()
    optimizer.step()
result = {{
    "weights": dict(layer.named_parameters()),
    "gradients": [parameter.grad for parameter in layer.parameters()],
    "buffers": dict(layer.named_buffers()),
}}
"""
LAYERS = {
    "dpq sx": "DPQEmbedding(20, 12, 5, 3, padding_idx=0)",
    "dpq vq": 'DPQEmbedding(20, 12, 5, 3, "vq", padding_idx=0)',
    "dpq sx, options": "DPQEmbedding("
    '20, 12, 5, 3, padding_idx=0, metric="cosine", key_dim=6, distance_norm="per_group")',
    "tr": "TREmbedding(20, 12, 3, padding_idx=0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_processes_keep_equal_gradients_and_weights(name: str, tmp_path: Path) -> None:
    first, second = run_in_two_processes(_LINES.format(layer=LAYERS[name]), tmp_path)
    for part in ("weights", "gradients"):
        torch.testing.assert_close(first[part], second[part], rtol=0, atol=0)
    assert all(gradient.any() for gradient in first["gradients"])
    for state in (first, second):
        assert all(buffer.isfinite().all() for buffer in state["buffers"].values())
        assert (state["buffers"].get("running_var", torch.ones(1)) > 0).all()
