"""Top-k: the largest logits, merged from blocks of rows so that all logits are never in memory.

    values[*, j], ids[*, j] = the j-th largest of logits[*, i] + bias[i], and its i

The lowest id is first among equal logits: the best so far come before a block, whose ids are all higher.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from edge_embed.ops.logits import check_hidden, logit_blocks


class TopK(NamedTuple):
    """The largest logits of each hidden state in descending order, the lowest id first among equal ones.

    Attributes:
        values: [*, k].
        ids: int64 [*, k].
    """

    values: Tensor
    ids: Tensor


# Lets a model return it and still be saved.
pytree._register_namedtuple(TopK, serialized_type_name="edge_embed.TopK")


def largest(logits: Tensor, k: int) -> TopK:
    """Return the ``k`` largest of [*, n] as [*, k], lowest position first among equals, unlike ``torch.topk``."""
    count = logits.shape[-1]
    last = logits.topk(k).values[..., -1:]  # [*, 1]
    # Rank: first the entries above the k-th largest, then those equal to it, then the rest; lower positions first.
    order = (2 * (logits > last) + (logits == last).long()) * count - torch.arange(count, device=logits.device)
    ids = order.topk(k).indices  # [*, k], ordered by position among larger and among equal ones
    values, places = logits.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    return TopK(values, ids.gather(-1, places))


def block_topk(
    hidden: Tensor,
    bias: Tensor | None,
    k: int,
    rows: Callable[[Tensor], Tensor],
    num_embeddings: int,
    embedding_dim: int,
) -> TopK:
    """Return the largest logits of ``hidden`` [*, d] as [*, k]; ``rows`` returns [block, d] for ids [block]."""
    check_hidden(hidden, embedding_dim)
    shape = (*hidden.shape[:-1], 0)
    best = TopK(hidden.new_empty(shape), hidden.new_empty(shape, dtype=torch.int64))
    for begin, end, logits in logit_blocks(hidden, rows, num_embeddings, embedding_dim):
        scores = logits if bias is None else logits + bias[begin:end]  # [*, block]
        values = torch.cat((best.values, scores), dim=-1)  # [*, up to k + block]
        ids = torch.cat((best.ids, torch.arange(begin, end, device=hidden.device).expand(scores.shape)), dim=-1)
        found = largest(values, min(k, values.shape[-1]))
        best = TopK(found.values, ids.gather(-1, found.ids))
    return best
