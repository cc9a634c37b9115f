"""Distance of a compressed model's outputs from those of the dense model.

    logits          mean of sum_j p_j (log p_j - log q_j)       p: of the dense model, q: of the compressed one
    other outputs   sum (y - x)^2 / sum x^2                     x: of the dense model, y: of the compressed one

Outputs that are no floats do not count. The distance of a model is the sum over its outputs.
"""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError

_LEAST = -1e4  # log probability of masked logits, in place of minus infinity


def distance(expected: Sequence[Tensor], found: Sequence[Tensor], logits_at: Collection[int]) -> Tensor:
    """Return the distance of some outputs, a scalar.

    Args:
        expected: outputs of the dense model.
        found: outputs of the compressed model.
        logits_at: positions of the outputs that are logits.

    Raises:
        BadInputError: no output is a float.
    """
    parts = [
        _divergence(before, after) if at in logits_at else _relative(before, after)
        for at, (before, after) in enumerate(zip(expected, found, strict=True))
        if before.is_floating_point() and before.numel()
    ]
    if not parts:
        raise BadInputError("calibrate: the model returns no floats, expected outputs of type float: leave it out")
    return torch.stack(parts).sum()


def _divergence(expected: Tensor, found: Tensor) -> Tensor:
    p, q = (logits.flatten(0, -2).log_softmax(-1).clamp(min=_LEAST) for logits in (expected, found))
    return functional.kl_div(q, p, log_target=True, reduction="batchmean")


def _relative(expected: Tensor, found: Tensor) -> Tensor:
    least = torch.finfo(expected.dtype).tiny
    return (found - expected).square().sum() / expected.square().sum().clamp(min=least)
