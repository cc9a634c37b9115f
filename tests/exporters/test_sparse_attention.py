"""One model with a compressed table and attention of learned alphas, in each format (tests/targets/web: browsers)."""

import pytest
import torch
from torch import nn

import edge_embed


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(300, 32, 16, 8, padding_idx=0)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
        edge_embed.use_sparse_attention(self.encoder, "learned")
        with torch.no_grad():
            for layer in self.encoder.layers:
                layer.self_attn.activation.alpha_logit.copy_(torch.linspace(-2, 2, 4))
                layer.self_attn.in_proj_weight.mul_(4)  # for zeros among the probabilities

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.words(ids), src_key_padding_mask=ids == 0)  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_learned_attention_over_compressed_table_passes_validation(target, tmp_path):
    torch.manual_seed(0)
    saved, exported = tmp_path / "model.pt", tmp_path / f"model.{target}"
    edge_embed.save(Reader(), saved, torch.tensor([[17, 4, 256, 0, 0], [3, 1, 99, 7, 8]]))
    edge_embed.export(saved, target, exported)
    report = edge_embed.validate(saved, exported)
    assert report.passed, report.failures()
