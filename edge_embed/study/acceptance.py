"""Acceptance of a draft model in speculative decoding: how many of its tokens the target model keeps.

    greedy  = share of positions at which both models have the same most likely token
    sampled = mean over positions of sum_i min(p_i, q_i)         p: target, q: draft; 0 for ids that the draft lacks
    tokens of a step of the target model after g drafted ones = (1 - a^(g + 1)) / (1 - a)      a: either of both

Source: Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023), corollary
3.6 and equation (1). Their formula for the tokens takes positions to be accepted independently of each other.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.ops.ids import check_id_range, integer_ids, repeated_id

_BLOCK = 1 << 22  # logits of the target model that are converted to float64 at a time


@dataclass(frozen=True)
class Acceptance:
    """Probability that a drafted token is accepted, 0 to 1.

    Attributes:
        greedy: both models take their most likely token.
        sampled: both models sample at temperature 1, and drafted tokens are accepted as the paper describes.
    """

    greedy: float
    sampled: float

    def tokens(self, drafted: int, sampled: bool = False) -> float:
        """Return the expected tokens of one step of the target model, 1 to ``drafted + 1``.

        Args:
            drafted: number of tokens that the draft model proposes.
            sampled: whether the models sample.

        Raises:
            BadInputError: for a number below 1.
        """
        rate, number = self.sampled if sampled else self.greedy, checked_count("drafted", drafted)
        return number + 1.0 if rate == 1 else (1 - rate ** (number + 1)) / (1 - rate)


@torch.no_grad()
def acceptance(target: Tensor, draft: Tensor, target_ids: Tensor | None = None) -> Acceptance:
    """Return the acceptance of the tokens of a draft model, over the same positions of a text.

    Args:
        target: logits of the target model, float [*, n].
        draft: logits of the draft model, float [*, r], over its own ids.
        target_ids: target id of each id of the draft model, integers [r], as `DraftOutput.target_ids`; None if both
            models have the same ids.

    Raises:
        BadInputError: for logits of other shapes or types, or none, or without numbers (-inf masks an id), or ids that
            do not fit them.
        IdOutOfRangeError: for ids outside the vocabulary of the target model.
    """
    for name, logits in (("target", target), ("draft", draft)):
        if not isinstance(logits, Tensor) or not logits.is_floating_point() or not logits.ndim or logits.is_meta:
            got = f"{logits.dtype} {list(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
            raise BadInputError(f"{name}: got {got}, expected logits in memory, float [*, ids]")
    if target.shape[:-1] != draft.shape[:-1] or not target.numel() or not draft.numel():
        got = f"got logits {list(target.shape)} and {list(draft.shape)}"
        raise BadInputError(f"{got}, expected those of equal positions, at least one")
    n, rows = target.shape[-1], draft.shape[-1]
    ids = torch.arange(rows) if target_ids is None else integer_ids(target_ids).long()
    if ids.shape != (rows,) or (target_ids is None and rows != n):
        got = f"{rows} draft logits for {n}" if target_ids is None else f"ids {list(ids.shape)} for {rows} logits"
        raise BadInputError(f"target_ids: got {got}, expected an id for each draft logit, [{rows}]")
    check_id_range(ids, n)
    if (repeated := repeated_id(ids)) is not None:
        raise BadInputError(f"target_ids: got {repeated} more than once, expected different ids")
    blocks = [each.reshape(-1, each.shape[-1]).split(max(1, _BLOCK // n)) for each in (target, draft)]
    equal, shared = 0, 0.0
    for expected, found in zip(*blocks, strict=True):
        equal += int((expected.argmax(-1) == ids.to(found.device)[found.argmax(-1)]).sum())
        kept = expected.double().softmax(-1)[:, ids]  # p of the ids of the draft, [B, r]
        shared += float(torch.minimum(kept, found.double().softmax(-1)).sum())
    if math.isnan(shared):
        raise BadInputError("got logits with NaN or infinity, or only masked ones; expected numbers and -inf")
    positions = target.numel() // n
    return Acceptance(equal / positions, min(1.0, shared / positions))
