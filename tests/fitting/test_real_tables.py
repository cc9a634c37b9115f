"""Product quantisation of real tables compared with faiss, and the effect of training on rows alone."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

import edge_embed
from edge_embed.fitting import dpq
from edge_embed.layers.regularization import regularization_loss

faiss = pytest.importorskip("faiss", reason="faiss is not installed (extra edge-embed[bench])")

pytestmark = pytest.mark.slow

Tables = dict[str, NDArray[np.float32]]


def nearness(found: Tensor, rows: Tensor) -> tuple[float, float]:
    """Return mean cosine and relative error."""
    found, rows = found.double(), rows.double()
    return float(functional.cosine_similarity(found, rows).mean()), float((found - rows).norm() / rows.norm())


def test_ant_under_ordinary_optimiser_loses_sparsity(tables: Tables) -> None:
    """Zero weights get gradients too, and Adam moves all weights equally far."""
    rows = torch.from_numpy(tables["input"][:1000])
    model = nn.Sequential(nn.Embedding.from_pretrained(rows))
    layer = edge_embed.compress(model, "ant", trainable=True, num_anchors=50, nonzeros=4)[0][0]
    before = int((layer.transform > 0).sum())
    functional.mse_loss(layer.train()(torch.arange(1000)), rows).backward()
    torch.optim.Adam(layer.parameters(), lr=1e-4).step()
    assert int((layer.transform > 0).sum()) > 2 * before


@torch.no_grad()
@pytest.mark.parametrize("name", ["input", "output"])
@pytest.mark.parametrize(("num_codes", "num_groups"), [(16, 25), (16, 50), (256, 25)])
def test_dpq_fit_is_as_near_as_product_quantiser_of_faiss(
    tables: Tables, name: str, num_codes: int, num_groups: int
) -> None:
    """The quantiser has equal bytes and default settings, and searches the nearest codes."""
    rows = torch.from_numpy(tables[name])
    quantiser = faiss.ProductQuantizer(rows.shape[1], num_groups, num_codes.bit_length() - 1)
    quantiser.train(tables[name])
    theirs = nearness(torch.from_numpy(quantiser.decode(quantiser.compute_codes(tables[name]))), rows)
    unit = torch.eye(rows.shape[1], dtype=torch.float64)
    ours = nearness(dpq.fit(rows, num_codes, num_groups, triangle=unit).eval()(torch.arange(len(rows))), rows)
    assert ours[0] >= theirs[0] - 5e-4  # squared errors, which decide both, weigh long rows more
    assert ours[1] < theirs[1]


@pytest.mark.parametrize(
    ("method", "sizes"),
    [("dpq", {"num_codes": 16, "num_groups": 25}), ("low_rank", {"rank": 8}), ("tt", {"rank": 16})],
)
@pytest.mark.parametrize("rate", [1e-4, 1e-3])
def test_training_on_rows_alone_gains_nothing(tables: Tables, method: str, sizes: dict[str, int], rate: float) -> None:
    """A fit is at, or very near, the least squared error: distil through a model, or train on its task."""
    rows = torch.from_numpy(tables["input"])
    model = nn.Sequential(nn.Embedding.from_pretrained(rows))
    layer = edge_embed.compress(model, method, trainable=True, **sizes)[0][0]
    ids = torch.arange(len(rows))
    before = nearness(layer.eval()(ids).detach(), rows)
    optimizer = torch.optim.Adam(layer.train().parameters(), lr=rate)
    torch.manual_seed(0)
    for _ in range(10):
        for some in torch.randperm(len(rows)).split(500):
            optimizer.zero_grad()
            (functional.mse_loss(layer(some), rows[some]) + regularization_loss(layer)).backward()
            optimizer.step()
    after = nearness(layer.eval()(ids).detach(), rows)
    assert after[1] > before[1] - 0.002  # trains are fitted core by core, not all at once
