"""Sampled softmax: an output layer learns from a few rows of its table a step instead of all.

    loss = log(exp(o_t) + sum_{s in S, s != t} exp(o_s) / (k q_s)) - o_t          o_i = <h, E[i]> + bias[i]

t is the right row, S are k others, drawn with chances q and replacement, the same for all hidden states of a step. On
average what the logarithm is taken of is the sum over all rows, so the loss goes to that of the full softmax with k.

    chances = log_uniform(n)                                   or how often each id comes up
    loss = sampled_softmax_loss(head, hidden, targets, draw(chances, 500), chances)

Source: importance sampling, "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language
Model" (Bengio and Senecal, 2008), with which ANT trains large vocabularies (appendix H): rows of T are indexed by the
ids that are needed, then multiplied with A. It takes any method's table.
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.layers.table import CompressedEmbedding, checked_count
from edge_embed.layers.tied_output import TiedOutput, checked_batch
from edge_embed.ops.ids import check_id_range, integer_ids


def log_uniform(num_embeddings: int) -> Tensor:
    """Chances of ids that are sorted by falling frequency, as words by Zipf's law: log((i + 2) / (i + 1)), float64 [n].

    Raises:
        BadInputError: if the number is not at least 1.
    """
    checked_count("num_embeddings", num_embeddings)
    return (1 / torch.arange(1, num_embeddings + 1, dtype=torch.float64)).log1p()


def draw(chances: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Ids int64 [count], each with its chance, with replacement; draw anew for each step.

    Args:
        chances: of each id, [n], of any sum: counts are chances.
        count: how many, k.
        generator: of the draws, by default torch's own.

    Raises:
        BadInputError: if the count is not at least 1, or for chances that are not finite, below 0 or all 0.
    """
    checked_count("count", count)
    total = _shares(chances).cumsum(0)
    points = torch.rand(count, dtype=total.dtype, generator=generator) * total[-1]
    return torch.searchsorted(total, points.to(total.device), right=True).clamp(max=len(total) - 1)


def sampled_softmax_loss(head: TiedOutput, hidden: Tensor, targets: Tensor, sampled: Tensor, chances: Tensor) -> Tensor:
    """The loss above, its mean over hidden states, a scalar; only rows that are sampled or right get a gradient.

    Args:
        head: the output layer.
        hidden: [*, d].
        targets: ids of the right rows, integers [*]; -100 leaves a hidden state out, as in torch's losses.
        sampled: ids of S, integers [k]; what equals a target does not count for it.
        chances: what they were drawn with, [n], above 0 for each of them.

    Raises:
        BadInputError: for other shapes or types, or a sampled id whose chance is 0.
        IdOutOfRangeError: for an id outside the table.
    """
    hidden, targets = checked_batch(head, hidden, targets)
    sampled = integer_ids(sampled).long().to(targets.device)
    log_shares = _checked_shares(chances, sampled, head.out_features)  # [k]
    rows = CompressedEmbedding.forward(head.embedding, torch.cat((targets, sampled)))  # of a bag too: [B + k, d]
    own, others = rows.to(hidden.dtype).split((len(targets), len(sampled)))
    wide = torch.promote_types(hidden.dtype, torch.float32)
    right, wrong = (hidden * own).sum(-1).to(wide), (hidden @ others.t()).to(wide)  # [B], [B, k]
    if head.bias is not None:
        right, wrong = right + head.bias[targets], wrong + head.bias[sampled]
    wrong = wrong - log_shares.to(wrong)
    wrong = wrong.masked_fill(sampled == targets.unsqueeze(-1), -torch.inf)
    return functional.cross_entropy(torch.cat((right.unsqueeze(-1), wrong), -1), torch.zeros_like(targets))


def _checked_shares(chances: Tensor, sampled: Tensor, num_embeddings: int) -> Tensor:
    """log(k q) of the sampled ids, float64 [k]."""
    shares = _shares(chances)
    if len(shares) != num_embeddings or sampled.ndim != 1 or not len(sampled):
        got = f"got {len(shares)} chances and sampled ids {list(sampled.shape)}"
        raise BadInputError(f"{got}, expected {num_embeddings}, one for each row, and ids [k]")
    check_id_range(sampled, num_embeddings)
    log_shares: Tensor = (len(sampled) * shares.to(sampled.device)[sampled]).log()
    if log_shares.isinf().any():
        raise BadInputError("got a sampled id whose chance is 0: give the chances that the ids were drawn with")
    return log_shares


def _shares(chances: Tensor) -> Tensor:
    """Chances that sum to one, float64 [n]."""
    if not isinstance(chances, Tensor) or chances.ndim != 1 or chances.is_complex():
        shown = list(chances.shape) if isinstance(chances, Tensor) else f"{chances!r:.80}"
        raise BadInputError(f"chances: got {shown}, expected a number for each row, [n]")
    chances = chances.double()
    shares = chances / chances.sum()
    if not len(shares) or not ((chances >= 0) & shares.isfinite()).all():
        raise BadInputError("chances: got numbers that are below 0, not finite, or all 0")
    return shares
