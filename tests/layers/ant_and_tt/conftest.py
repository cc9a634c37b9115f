"""Tables of ANT (alone and mixed), TT and TR as they are after training, in each of their modes."""

from collections.abc import Callable

import pytest
import torch

from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

N, DIM = 20, 12
IDS = torch.arange(N)


def new_ant(num_embeddings: int = N, **options: object) -> ANTEmbedding:
    return ANTEmbedding(num_embeddings, DIM, 5, **options)


def new_mixture(num_embeddings: int = N, **options: object) -> ANTMixtureEmbedding:
    return ANTMixtureEmbedding(num_embeddings, DIM, (2, 3), "softmax", **options)


def new_tt(num_embeddings: int = N, **options: object) -> TTEmbedding:
    return TTEmbedding(num_embeddings, DIM, 4, **options)


def new_tr(num_embeddings: int = N, **options: object) -> TREmbedding:
    return TREmbedding(num_embeddings, DIM, 3, **options)


def used_ant(num_embeddings: int = N, **options: object) -> ANTEmbedding:
    """Return a table with anchors of both signs and a transform as sparse as after training; row 6 is empty."""
    return as_after_training(new_ant(num_embeddings, **options))


def used_mixture(num_embeddings: int = N, **options: object) -> ANTMixtureEmbedding:
    """Return such a table with two anchor sets; row 6 is the sum of their means."""
    return as_after_training(new_mixture(num_embeddings, **options))


def as_after_training(layer: ANTEmbedding) -> ANTEmbedding:
    with torch.no_grad():
        layer.anchors.normal_()
        layer.transform.mul_(torch.rand_like(layer.transform) < 0.6)
        layer.transform[:, 4][layer.transform.sum(1) == 0] = 0.5
        layer.transform[6] = 0
    return layer


def with_normal_cores(layer: TTEmbedding) -> TTEmbedding:
    with torch.no_grad():
        for core in layer.cores:
            core.normal_()
    return layer


def used_tt(num_embeddings: int = N, **options: object) -> TTEmbedding:
    return with_normal_cores(new_tt(num_embeddings, **options))


def used_tr(num_embeddings: int = N, **options: object) -> TTEmbedding:
    return with_normal_cores(new_tr(num_embeddings, **options))


NEW = {"ant": new_ant, "mixture": new_mixture, "tt": new_tt, "tr": new_tr}
USED = {"ant": used_ant, "mixture": used_mixture, "tt": used_tt, "tr": used_tr}


@pytest.fixture(params=NEW)
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make(method: str) -> Callable[..., CompressedEmbedding]:
    return USED[method]


MODES = ["trainable-train", "trainable-eval", "frozen-train", "frozen-eval"]


@pytest.fixture(params=MODES)
def make_mode(request: pytest.FixtureRequest, make: Callable[..., CompressedEmbedding]) -> Callable[..., object]:
    """Return a function that makes a table in each of its four modes."""
    state, mode = request.param.split("-")

    def made(**options: object) -> CompressedEmbedding:
        layer = make(**options)
        return (layer.freeze() if state == "frozen" else layer).train(mode == "train")

    return made


def rows_of(layer: CompressedEmbedding, ids: torch.Tensor = IDS) -> torch.Tensor:
    training = layer.training
    rows = layer.eval()(ids).detach()
    layer.train(training)
    return rows
