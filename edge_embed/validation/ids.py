"""Random ids: uniform, or by Zipf's law with low ids frequent, as vocabularies are usually sorted.

Zipf's 1 / (r + 1) is drawn as the whole part of exp(u ln(n + 1)), less 1, for a uniform u: id r then has a
probability proportional to ln((r + 2) / (r + 1)).
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Distribution = Literal["uniform", "zipf"]


def draw(
    random: np.random.Generator,
    distribution: Distribution,
    num_embeddings: int,
    shape: tuple[int, ...],
    dtype: Any = np.int64,
) -> NDArray[np.integer[Any]]:
    """Draw ids in 0 ... n - 1, never all of them zero (unless there is nothing else, or nothing to draw).

    Ids of zero would hide what works for the first row only.
    """
    if distribution == "uniform":
        ids = random.integers(0, num_embeddings, shape)
    else:
        powers = np.exp(random.random(shape) * np.log(num_embeddings + 1))  # 1 ... n + 1
        ids = np.clip(powers.astype(np.int64) - 1, 0, num_embeddings - 1)
    ids = np.asarray(ids)
    if ids.size and not ids.any() and num_embeddings > 1:
        ids.reshape(-1)[0] = random.integers(1, num_embeddings)
    return ids.astype(dtype)
