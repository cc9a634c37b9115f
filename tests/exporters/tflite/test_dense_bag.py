"""Bags of dense tables beside a compressed table, converted to TFLite."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import edge_embed
from edge_embed.exporters.tflite.dense_bag import DENSE_BAGS

ATEN_BAG = torch.ops.aten.embedding_bag.padding_idx
OFFSETS = torch.tensor([0, 0, 4, 9])  # the first bag is empty


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("include_last", [False, True])
@pytest.mark.parametrize("padding", [None, 3, -27])
def test_dense_bag_of_irregular_offsets_equals_torch(mode: int, include_last: bool, padding: int | None) -> None:
    torch.manual_seed(0)
    table, ids = torch.randn(30, 4), torch.tensor([3, 1, 3, 29, 0, 4, 3, 4, 2])
    weights = torch.rand(9) if mode == 0 else None
    offsets = OFFSETS if include_last else OFFSETS[:-1]
    given = (table, ids, offsets, False, mode, False, weights, include_last, padding)
    assert_close(DENSE_BAGS[ATEN_BAG](*given)[0], ATEN_BAG(*given)[0])


class Beside(nn.Module):
    """Bags of two dense tables beside a compressed table."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = edge_embed.DPQEmbedding(50, 8, 4, 4)
        self.mean = nn.EmbeddingBag(30, 4, mode="mean", padding_idx=0)
        self.sum = nn.EmbeddingBag(20, 4, mode="sum")

    def forward(self, ids: Tensor, tags: Tensor, weights: Tensor) -> Tensor:
        return torch.cat([self.words(ids), self.mean(tags), self.sum(tags, per_sample_weights=weights)], 1)


@pytest.mark.slow
def test_dense_bags_beside_compressed_table_export_and_validate(tmp_path) -> None:
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    given = torch.tensor([1, 2]), torch.tensor([[5, 0, 7], [1, 2, 19]]), torch.rand(2, 3)
    edge_embed.save(Beside().eval(), tmp_path / "m.pt", given)
    edge_embed.export(tmp_path / "m.pt", "tflite", tmp_path / "m.tflite")
    report = edge_embed.validate(tmp_path / "m.pt", tmp_path / "m.tflite", iterations=0)
    assert report.passed, str(report)
