"""Random ids: uniform, or by Zipf's law with low ids frequent, as vocabularies are usually sorted by frequency.

Zipf's 1 / (r + 1) is drawn as the integer part of exp(u ln(n + 1)), minus 1, for a uniform u. Id r then has a
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
    """Draw ids in 0 ... n - 1 that are not all zero, unless n is 1 or no id is drawn.

    Ids that are all zero would hide errors that affect every row but the first.
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
