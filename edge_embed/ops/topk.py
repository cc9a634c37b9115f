"""The rows that score highest: the largest logits, merged from blocks of rows so that all of them never exist.

    values[*, j], ids[*, j] = the j-th largest of logits[*, i] + bias[i], and its i

Equal ones come by lowest id: the best so far stand before a block, whose ids are all above theirs.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from edge_embed.ops.logits import check_hidden, logit_blocks


class TopK(NamedTuple):
    """The largest logits of each hidden state, in descending order, equal ones by lowest id.

    Attributes:
        values: [*, k].
        ids: int64 [*, k].
    """

    values: Tensor
    ids: Tensor


# So that a model may return it and be saved.
pytree._register_namedtuple(TopK, serialized_type_name="edge_embed.TopK")


def largest(logits: Tensor, k: int) -> TopK:
    """The ``k`` largest of [*, n] -> [*, k], equal ones by lowest position, which ``torch.topk`` does not promise."""
    count = logits.shape[-1]
    last = logits.topk(k).values[..., -1:]  # [*, 1]
    # What is above the last one counts more than what equals it, that more than the rest, then lower positions more.
    order = (2 * (logits > last) + (logits == last).long()) * count - torch.arange(count, device=logits.device)
    ids = order.topk(k).indices  # [*, k], by position among those above, and among those equal
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
    """The largest logits of ``hidden`` [*, d] -> [*, k]; ``rows`` gives [block, d] for ids [block]."""
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
