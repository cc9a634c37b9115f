"""Divergence of a model from the dense one.

KL = mean over predictions of sum_j p_j (log p_j - log q_j)        p: of the dense model, q: of the other
"""

from torch import Tensor


def divergence(dense: Tensor, other: Tensor) -> float:
    """Return the KL divergence of logits from those of the dense model, both [m, classes]."""
    expected, found = dense.double().log_softmax(-1), other.double().log_softmax(-1)
    return float((expected.exp() * (expected - found)).sum(-1).mean())


def same_choice(dense: Tensor, other: Tensor) -> float:
    """Return the share of predictions whose largest logit is that of the dense model."""
    return float((dense.argmax(-1) == other.argmax(-1)).double().mean())
