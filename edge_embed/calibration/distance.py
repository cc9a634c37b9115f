"""Distance of a compressed model's outputs from those of the dense model.

    logits          mean of sum_j p_j (log p_j - log q_j)       p: of the dense model, q: of the compressed one
    other outputs   sum (y - x)^2 / sum x^2                     x: of the dense model, y: of the compressed one

If a model has logits, only these count, and not its states; otherwise all outputs of type float do. The distance of a
model is the sum over the outputs that count.
"""

from collections.abc import Collection, Sequence

import torch
from torch import Generator, Tensor
from torch.nn import functional

_LEAST = -1e4  # log probability of masked logits, in place of minus infinity


def distance(expected: Sequence[Tensor], found: Sequence[Tensor], logits_at: Collection[int]) -> Tensor:
    """Return the distance of some outputs, a scalar of float64.

    Args:
        expected: outputs of the dense model, at least one of them of type float.
        found: outputs of the compressed model.
        logits_at: positions of the outputs that are logits.
    """
    measure, counted = (_divergence, logits_at) if logits_at else (_relative, _floats(expected))
    parts = [measure(_wide(expected[at]), _wide(found[at])) for at in counted]
    return torch.stack([part.double() for part in parts]).sum()


def probe(outputs: Sequence[Tensor], logits_at: Collection[int], random: Generator) -> Tensor:
    """Return a random scalar; the expected outer product of its gradient is the curvature of `distance` at distance 0.

    For logits it is the log probability of classes that the model itself draws (Fisher information), for other outputs
    a sum with random signs (Gauss-Newton).

    Args:
        outputs: outputs of a model.
        logits_at: positions of the outputs that are logits.
        random: generator of the classes or signs.
    """
    drawn, counted = (_class_drawn, logits_at) if logits_at else (_signs_drawn, _floats(outputs))
    return torch.stack([drawn(_wide(outputs[at]), random).double() for at in counted]).sum()


def _floats(outputs: Sequence[Tensor]) -> list[int]:
    return [at for at, output in enumerate(outputs) if output.is_floating_point()]


def _wide(output: Tensor) -> Tensor:
    """Return at least float32: float16 has no room for sums of squares."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


def _divergence(expected: Tensor, found: Tensor) -> Tensor:
    p, q = (logits.flatten(0, -2).log_softmax(-1).clamp(min=_LEAST) for logits in (expected, found))
    return functional.kl_div(q, p, log_target=True, reduction="batchmean")


def _relative(expected: Tensor, found: Tensor) -> Tensor:
    least = torch.finfo(expected.dtype).tiny
    return (found - expected).square().sum() / expected.square().sum().clamp(min=least)


def _class_drawn(logits: Tensor, random: Generator) -> Tensor:
    logs = logits.flatten(0, -2).log_softmax(-1)  # [m, classes]
    classes = torch.multinomial(logs.detach().exp(), 1, generator=random)
    found: Tensor = logs.gather(1, classes).sum() / len(logs) ** 0.5
    return found


def _signs_drawn(output: Tensor, random: Generator) -> Tensor:
    signs = torch.randint(2, output.shape, generator=random) * 2 - 1
    least = torch.finfo(output.dtype).tiny
    return (signs * output).sum() * (2 / output.detach().square().sum().clamp(min=least)) ** 0.5
