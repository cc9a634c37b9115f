"""Trainable DPQ tables: `inspect` reports the sizes of the frozen table for every kind of training."""

from pathlib import Path

import pytest
import torch

import edge_embed
from edge_embed.inspection.program_file import inspect_program


@pytest.mark.parametrize("options", [{"key_dim": 6}, {"tie_key_value": True}, {"distance_norm": "per_group"},
                                     {"variant": "vq", "ema_decay": 0.9}], ids=str)  # fmt: skip
@pytest.mark.parametrize("share", [False, True])
def test_trainable_table_reports_sizes_of_frozen_table(tmp_path: Path, options, share):
    layer = edge_embed.DPQEmbedding(20, 12, 5, 3, share_subspaces=share, padding_idx=2, **options).eval()
    reports = []
    for name in ("trainable", "frozen"):
        edge_embed.save(torch.nn.Sequential(layer), tmp_path / f"{name}.pt", torch.tensor([[1, 2]]))
        (info,) = inspect_program(tmp_path / f"{name}.pt", verify=True).tables
        assert info.state == name
        reports.append((info.embedding_dim, info.attributes, info.padding_idx, info.compression_ratio,
                        info.inference_bytes))  # fmt: skip
        layer.freeze()
    assert reports[0] == reports[1]
    assert reports[0][0] == 12
