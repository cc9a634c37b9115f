"""Packed tables of ANT."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed import PackedANT


def sparse_transform(n: int, anchors: int, seed: int = 0, dtype: str = "float32") -> NDArray[Any]:
    """Return a transform with about a third of the entries, some empty rows, and no tiny numbers."""
    rng = np.random.default_rng([n, anchors, seed])
    transform = np.where(rng.random((n, anchors)) < 0.3, rng.uniform(0.1, 2, (n, anchors)), 0)
    transform[rng.random(n) < 0.2] = 0
    return transform.astype(dtype)


def table(
    n: int = 11,
    dim: int = 6,
    anchors: int = 5,
    padding: int | None = None,
    weight_type: str = "float32",
    value_type: str = "float32",
    seed: int = 0,
) -> PackedANT:
    values = np.random.default_rng([seed, dim]).standard_normal((anchors, dim)).astype(value_type)
    return PackedANT.from_dense(sparse_transform(n, anchors, seed), values, padding, weight_type)
