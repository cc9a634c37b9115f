"""Comparison that explains why there are no residual codes: `opq` is nearer to real tables at equal bytes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from edge_embed.fitting import opq

faiss = pytest.importorskip("faiss", reason="faiss is not installed (extra edge-embed[bench])")

pytestmark = [pytest.mark.slow, pytest.mark.long]
NUM_CODES = 16


def cosine(found: NDArray[np.float32], rows: NDArray[np.float32]) -> float:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(rows, axis=1)
    return float(((found * rows).sum(1) / lengths).mean())


@pytest.mark.parametrize("name", ["input", "output"])
@pytest.mark.parametrize("num_groups", [20, 50])  # 27 and 14 times fewer bytes, rotation counted
def test_opq_is_nearer_than_residual_codes(tables: dict[str, NDArray[np.float32]], name: str, num_groups: int) -> None:
    """Each level of residual codes has codes of half a byte and centroids as wide as a row."""
    rows = tables[name]
    n, dim = rows.shape
    made = opq.fit(torch.from_numpy(rows), NUM_CODES, num_groups)
    assert made.rotation is not None
    nbytes = made.layer.to_packed().nbytes + made.rotation.nbytes
    levels = -(-nbytes // (n // 2 + 4 * NUM_CODES * dim))  # with a few bytes more, rather than fewer
    residual = faiss.ResidualQuantizer(dim, levels, 4)
    residual.train(rows)
    peer = cosine(residual.decode(residual.compute_codes(rows)), rows)
    assert cosine(made.rows(torch.arange(n)).float().numpy(), rows) > peer + 0.005
