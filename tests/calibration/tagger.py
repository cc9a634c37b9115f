"""A model with compressed tables of every method, and its inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edge_embed.program.program import Program

SETTINGS: dict[str, dict[str, Any]] = {
    "dpq": {"num_codes": 16, "num_groups": 4},
    "dpq, float16": {"num_codes": 16, "num_groups": 4, "value_type": "float16"},
    "dpq, int8": {"num_codes": 16, "num_groups": 4, "value_type": "int8"},
    "opq": {"num_codes": 16, "num_groups": 4},
    "ant": {"num_anchors": 20, "nonzeros": 3, "value_type": "float16", "weight_type": "int8"},
    "ant, float32": {"num_anchors": 20, "nonzeros": 3},
    "tt": {"rank": 4},
    "tr": {"rank": 3},
    "low_rank": {"rank": 4, "value_type": "float16"},
    "rows": {"bits": 4},
    "tiered": {"ratio": 8},
}


class Tagger(nn.Module):
    """Lookups, a bag, a recurrent layer and an output layer over one table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(300, 16, padding_idx=0)
        self.bag = nn.EmbeddingBag(200, 16, mode="mean", padding_idx=3)
        self.encoder = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 300)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor, tags: Tensor) -> Tensor:
        states, _ = self.encoder(self.words(ids) + self.bag(tags)[:, None])
        logits: Tensor = self.head(states)
        return logits


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(300, (16, 9), generator=random), torch.randint(200, (16, 3), generator=random)


def weights(small: Program) -> Mapping[str, np.ndarray[Any, Any]]:
    return {name: tensor.clone().numpy() for name, tensor in small.module.named_buffers()}
