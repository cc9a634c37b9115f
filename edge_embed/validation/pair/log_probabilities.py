"""Log-probabilities of logits, and their divergence, row by row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def log_probabilities(logits: NDArray[Any]) -> Floats:
    """Return log softmax of the rows of logits, [m, classes], in float64."""
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return found


def divergences(p: Floats, q: Floats) -> Floats:
    """Return the KL divergence of q from p, both log-probabilities [m, classes], in nats, [m]."""
    found: Floats = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q)).sum(1)
    return found
