"""Small DPQ tables with clearly different rows."""

from collections.abc import Callable

import pytest
import torch

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.ops import logits as logits_module


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def used_table(num_embeddings: int = 20, embedding_dim: int = 12, num_codes: int = 5, num_groups: int = 3,
               *, warm: bool = True, **options: object) -> DPQEmbedding:  # fmt: skip
    """Return a table in training mode; with ``warm``, its running statistics differ from the initial ones."""
    layer = DPQEmbedding(num_embeddings, embedding_dim, num_codes, num_groups, init_scale=1.0, **options)
    if warm and not layer.frozen:
        with torch.no_grad():
            for _ in range(3):
                layer(torch.randint(0, num_embeddings, (16,)))
    return layer


@pytest.fixture(params=[None, 7], ids=["one block", "blocks of 7 rows"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make output layers process tables of 12 columns whole, or a few rows at a time."""
    if request.param:
        monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", request.param * 12)


@pytest.fixture
def make_layer() -> Callable[..., DPQEmbedding]:
    return used_table


def _frozen(**options: object) -> DPQEmbedding:
    return used_table(**options).freeze()


# A table has four modes: training or evaluation, trainable or frozen.
MODES = {
    "trainable-train": lambda **options: used_table(**options).train(),
    "trainable-eval": lambda **options: used_table(**options).eval(),
    "frozen-train": lambda **options: _frozen(**options).train(),
    "frozen-eval": lambda **options: _frozen(**options).eval(),
}


@pytest.fixture(params=MODES)
def make_mode(request: pytest.FixtureRequest) -> Callable[..., DPQEmbedding]:
    """Return a function that makes a table in each of its four modes."""
    return MODES[request.param]


@pytest.fixture(params=["sx", "vq"])
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[False, True], ids=["separate", "shared"])
def share(request: pytest.FixtureRequest) -> bool:
    return request.param
