"""Sampled softmax: trains an output layer on a few rows of its table in each step instead of all rows.

    loss = log(exp(o_t) + sum_{s in S, s != t} exp(o_s) / (k q_s)) - o_t          o_i = <h, E[i]> + bias[i]

t is the right row. S are k other rows, drawn with chances q and with replacement, the same for all hidden states of a
step. The expected argument of the logarithm is the sum over all rows, so the loss nears the full softmax as k grows.

    chances = log_uniform(n)                                   or the frequency of each id
    loss = sampled_softmax_loss(output_layer, hidden, targets, draw(chances, 500), chances)

Source: importance sampling, "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language
Model" (Bengio and Senecal, 2008). ANT trains large vocabularies with it (appendix H): rows of T are selected by id,
then multiplied with A. The loss supports tables of every method.
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput, checked_batch
from edge_embed.ops.ids import check_id_range, integer_ids


def log_uniform(num_embeddings: int) -> Tensor:
    """Return chances of ids in descending frequency, as of words by Zipf's law: log((i + 2) / (i + 1)), float64 [n].

    Raises:
        BadInputError: if the number is not at least 1.
    """
    checked_count("num_embeddings", num_embeddings)
    return (1 / torch.arange(1, num_embeddings + 1, dtype=torch.float64)).log1p()


def draw(chances: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw ids int64 [count] by their chances, with replacement; draw new ids for each step.

    Args:
        chances: chance of each id, [n], with any sum: counts are valid chances.
        count: number of ids k.
        generator: random generator, by default torch's own.

    Raises:
        BadInputError: if the count is not at least 1, or chances are not finite, below 0 or all 0.
    """
    checked_count("count", count)
    total = _shares(chances).cumsum(0)
    # Drawn on the CPU, as by a generator of the caller, so that a seed gives the same ids on all devices.
    points = torch.rand(count, dtype=total.dtype, generator=generator).to(total.device) * total[-1]
    return torch.searchsorted(total, points, right=True).clamp(max=len(total) - 1)


def sampled_softmax_loss(
    output_layer: TiedOutput, hidden: Tensor, targets: Tensor, sampled: Tensor, chances: Tensor
) -> Tensor:
    """Return the mean sampled-softmax loss over hidden states, a scalar. Only sampled and right rows get a gradient.

    Args:
        output_layer: the output layer.
        hidden: hidden states ``[*, d]``.
        targets: ids of the right rows, integers ``[*]``; states with the target -100 are ignored, as in torch's losses.
        sampled: ids of S, integers [k]; an id that equals a target is ignored for it.
        chances: chances that the ids were drawn with, [n], above 0 for each sampled id.

    Raises:
        BadInputError: for other shapes or types, or a sampled id whose chance is 0.
        IdOutOfRangeError: for an id outside the table.
    """
    hidden, targets = checked_batch(output_layer, hidden, targets)
    sampled = integer_ids(sampled).long().to(targets.device)
    log_shares = _checked_shares(chances, sampled, output_layer.out_features)  # [k]
    ids = torch.cat((targets, sampled))
    rows = CompressedEmbedding.forward(output_layer.embedding, ids)  # of a bag too: [B + k, d]
    own, others = rows.to(hidden.dtype).split((len(targets), len(sampled)))
    wide = torch.promote_types(hidden.dtype, torch.float32)
    right, wrong = (hidden * own).sum(-1).to(wide), (hidden @ others.t()).to(wide)  # [B], [B, k]
    if output_layer.bias is not None:
        right, wrong = right + output_layer.bias[targets], wrong + output_layer.bias[sampled]
    wrong = wrong - log_shares.to(wrong)
    wrong = wrong.masked_fill(sampled == targets.unsqueeze(-1), -torch.inf)
    return functional.cross_entropy(torch.cat((right.unsqueeze(-1), wrong), -1), torch.zeros_like(targets))


def _checked_shares(chances: Tensor, sampled: Tensor, num_embeddings: int) -> Tensor:
    """Return log(k q) of the sampled ids, float64 [k]."""
    shares = _shares(chances)
    if len(shares) != num_embeddings or sampled.ndim != 1 or not len(sampled):
        got = f"got {len(shares)} chances and sampled ids {list(sampled.shape)}"
        raise BadInputError(f"{got}, expected {num_embeddings} chances, one for each row, and ids [k]")
    check_id_range(sampled, num_embeddings)
    log_shares: Tensor = (len(sampled) * shares.to(sampled.device)[sampled]).log()
    if log_shares.isinf().any():
        raise BadInputError("chances: got 0 for a sampled id; give the chances with which the ids were drawn")
    return log_shares


def _shares(chances: Tensor) -> Tensor:
    """Return chances that sum to one, float64 [n]."""
    if not isinstance(chances, Tensor) or chances.ndim != 1 or chances.is_complex():
        shown = list(chances.shape) if isinstance(chances, Tensor) else f"{chances!r:.80}"
        raise BadInputError(f"chances: got {shown}, expected a number for each row, [n]")
    chances = chances.double()
    shares = chances / chances.sum()
    if not len(shares) or not ((chances >= 0) & shares.isfinite()).all():
        raise BadInputError("chances: got numbers that are below 0, not finite, or all 0")
    return shares
