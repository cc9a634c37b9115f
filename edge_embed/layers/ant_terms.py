"""Additional loss terms of ANT: add one, times a weight, to the loss of a step.

    L(A) = sum_{i != j} |a_i . a_j|          penalises anchors that are similar to each other (appendix E)
    L(T, N) = sum_{(u, v) in N} |t_u . t_v|  penalises unrelated tokens that share anchors (eq. 33)

Source: "Anchor & Transform" (ICLR 2021).
"""

from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.pairs import check_pairs
from edge_embed.ops.logits import without_autocast


def orthogonality(layer: ANTEmbedding) -> Tensor:
    """Return the sum of |a_i . a_j| over all ordered pairs of different anchors, a scalar, in memory for A^2 numbers.

    Raises:
        BadInputError: if the layer is frozen or is not an `ANTEmbedding`.
    """
    _check(layer)
    with without_autocast(layer.anchors.device):
        products = layer.anchors @ layer.anchors.t()  # [A, A]
        return products.abs().fill_diagonal_(0.0).sum()


def overlap(layer: ANTEmbedding, pairs: Tensor) -> Tensor:
    """Return the sum of |t_u . t_v| over pairs of tokens, a scalar. `edge_embed.layers.pairs.Unrelated` draws pairs.

    Args:
        layer: layer of the transform.
        pairs: ids int64 [2, P].

    Raises:
        BadInputError: if the layer is frozen or is not an `ANTEmbedding`, or pairs are not int64 [2, P].
        IdOutOfRangeError: for an id outside the table.
    """
    _check(layer)
    check_pairs(pairs, layer.num_embeddings)
    one, other = functional.embedding(pairs.to(layer.transform.device), layer.transform).clamp(min=0)  # [P, A] each
    products: Tensor = (one * other).sum()  # no number is below 0, so |t_u . t_v| is the product itself
    return products


def _check(layer: ANTEmbedding) -> None:
    if not isinstance(layer, ANTEmbedding):
        raise BadInputError(f"layer: got a {type(layer).__name__}, expected an ANTEmbedding itself, not its model")
    if layer.frozen:
        raise BadInputError("the layer is frozen and no longer trained: add this term before freezing")
