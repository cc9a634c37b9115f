"""Mixtures of anchor sets (ANT, appendix E): rows, and the sparse linear transform with the same rows.

    E = sum_m mix(T_m) A_m        mix: softmax over each row, or none; T >= 0

Without mix, the sets side by side are one set. A softmax gives every anchor a weight, even where T_m is zero. The
anchors at the minimum of a row share the smallest weight p, so the mean anchor of the set can stand for them:

    softmax(t) A_m = (|A_m| p) mean(A_m) + sum_k (softmax(t)_k - p) a_k

Only entries of T_m above the minimum of their row then need a number, and the weights of a set still sum to 1.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), appendices E and J.1. Two
parts are ours: the sum with the mean anchor, and sparsemax in place of softmax ("From Softmax to Sparsemax", Martins
and Astudillo, ICML 2016, Algorithm 1), which makes weights exactly zero.

Shapes: n rows, d embedding dim, M sets of A_1 ... A_M anchors, A in all, B rows of T.
"""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops import pairwise
from edge_embed.ops.ant import FROZEN, TRAINABLE, products
from edge_embed.ops.entmax import sparsemax
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows

Mixing = Literal["linear", "softmax", "sparsemax"]


_MIX: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda scores: scores,
    "softmax": lambda scores: scores.softmax(-1),
    "sparsemax": sparsemax,
}


def check_mixing(mixing: object) -> None:
    """Raise `BadInputError` unless the mixing is known."""
    if mixing not in get_args(Mixing):
        raise BadInputError(f"mixing must be one of {', '.join(get_args(Mixing))}, got {mixing!r:.80}")


def mixed(transform: Tensor, set_sizes: Sequence[int], mixing: str) -> Tensor:
    """Return the weights of all anchors from rows of T: [B, A] -> [B, A]; differentiable."""
    parts = transform.clamp(min=0).split(list(set_sizes), -1)
    return torch.cat([_MIX[mixing](part) for part in parts], -1)


def linear_form(transform: Tensor, anchors: Tensor, set_sizes: Sequence[int], mixing: str) -> tuple[Tensor, Tensor]:
    """Return weights and anchors of one set that give the same rows linearly.

    Args:
        transform: rows of T, [B, A].
        anchors: all sets side by side, [A, d].
        set_sizes: A_1 ... A_M.
        mixing: one of `Mixing`.

    Returns:
        Weights [B, A] and anchors [A, d]; for a softmax [B, A + M] and [A + M, d], with the mean of each set at the
        end.
    """
    check_mixing(mixing)
    if sum(set_sizes) != anchors.shape[0] or anchors.shape[0] != transform.shape[1] or min(set_sizes, default=0) < 1:
        got = f"sets of {list(set_sizes)} anchors, a transform {list(transform.shape)}, anchors {list(anchors.shape)}"
        raise BadInputError(
            f"got {got}, expected sets of at least 1 anchor, whose sizes add up to all columns and to all anchors"
        )
    weights = mixed(transform, set_sizes, mixing)
    if mixing != "softmax":
        return weights, anchors
    sizes, above, shared = list(set_sizes), [], []
    for part, given in zip(weights.split(sizes, -1), transform.clamp(min=0).split(sizes, -1), strict=True):
        least = part.amin(-1, keepdim=True)  # [B, 1]
        difference, at_least = part - least, given <= given.amin(-1, keepdim=True)
        above.append(difference - difference.detach().masked_fill(~at_least, 0.0))  # exactly 0 there, with a gradient
        shared.append(least * part.shape[-1])
    means = [part.mean(0, keepdim=True) for part in anchors.split(sizes)]
    return torch.cat((*above, *shared), -1), torch.cat((anchors, *means))


def mixture_rows(
    ids: Tensor, transform: Tensor, anchors: Tensor, set_sizes: Sequence[int], mixing: str, padding_idx: int | None
) -> Tensor:
    """Return rows of a trainable mixture, equal to those of its packed form: ids -> [*ids, d]; differentiable."""
    check_id_range(ids, transform.shape[0])
    chosen = functional.embedding(ids.reshape(-1).long(), transform)  # [B, A]
    rows = products(*linear_form(chosen, anchors, set_sizes, mixing), pairwise.product)
    return finish_rows(rows, ids, padding_idx)


MIXTURE = define(
    "ant_mixture",
    "Tensor transform, Tensor anchors, int[] set_sizes, str mixing, int? padding_idx",
    mixture_rows,
    size=lambda transform, anchors, set_sizes, mixing, padding_idx: (transform.shape[0], anchors.shape[1]),
    like=lambda transform, anchors, set_sizes, mixing, padding_idx: anchors,
)

FORMS = (TRAINABLE, FROZEN, MIXTURE)
