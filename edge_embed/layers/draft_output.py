"""`DraftOutput`, the output layer of a draft model in speculative decoding, over a part of the target's vocabulary.

logits[*, i] of draft row i        target id of row i = i + d2t[i]                     i = 0 to r - 1

Source of the map: checkpoints of "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time
Test" (Li and others, 2025).
"""

from collections.abc import MutableMapping
from typing import Any, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import INTEGER_TYPES, checked_count, checked_counts
from edge_embed.layers.tied_output import IGNORED, TiedOutput
from edge_embed.ops.ids import check_id_range, integer_ids, repeated_id
from edge_embed.ops.logits import check_hidden
from edge_embed.ops.topk import TopK
from edge_embed.packed.topk import check_k

_MAPS = torch.int32, torch.int64


@suggests_keywords
class DraftOutput(nn.Module):
    """Output layer of a draft model, which knows r of the n ids of its target model.

    `edge_embed.compress` compresses the linear layer inside it by the name of its attribute, ``output``. The map is the
    buffer ``d2t``. A compressed layer with all ids, a `TiedOutput`, needs no map.

    Args:
        output: layer from hidden states [*, d] to logits [*, r]: an ``nn.Linear`` or a `TiedOutput`.
        d2t: target id of each row minus the number of the row, [r], int64 as in checkpoints, or int32 for half its
            bytes; the target ids differ from each other.

    Shape:
        hidden ``[*, d]`` -> ``(*, r)``, the logits of the kept ids.

    Raises:
        BadInputError: for another layer, or a map of other ids.
    """

    d2t: Tensor

    def __init__(self, output: nn.Linear | TiedOutput, d2t: Tensor) -> None:
        super().__init__()
        if not isinstance(output, nn.Linear | TiedOutput):
            raise BadInputError(f"output: got a {type(output).__name__}, expected an nn.Linear or a TiedOutput")
        self.output = output
        self.register_buffer("d2t", _checked_map(d2t, output.out_features).detach().clone())

    @classmethod
    def from_linear(cls, linear: nn.Linear, target_ids: ArrayLike) -> Self:
        """Return a dense draft layer with a copy of some rows of the target's output layer.

        Args:
            linear: the output layer of the target model, [n, d], with or without a bias.
            target_ids: ids of the rows to keep, integers [r], as `frequent_ids` finds them.

        Raises:
            BadInputError: for another layer, or target ids that are no different rows of it.
        """
        if not isinstance(linear, nn.Linear):
            raise BadInputError(f"linear: got a {type(linear).__name__}, expected an nn.Linear")
        ids = _checked_ids(target_ids).to(linear.weight.device)
        check_id_range(ids, linear.out_features)
        if (repeated := repeated_id(ids)) is not None:
            raise BadInputError(f"target_ids: got {repeated} more than once, expected different ids")
        kept = nn.Linear(linear.in_features, len(ids), linear.bias is not None, ids.device, linear.weight.dtype)
        with torch.no_grad():
            kept.weight.copy_(linear.weight[ids])
            if linear.bias is not None:
                kept.bias.copy_(linear.bias[ids])
        return cls(kept, (ids - torch.arange(len(ids), device=ids.device)).int())

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Refuse a map of other ids, with the words of its check."""
        if (stored := state_dict.get(prefix + "d2t")) is not None:
            try:
                _checked_map(stored, len(self.d2t))
            except BadInputError as error:
                rest[-1].append(f"{prefix}{error}")
                state_dict[prefix + "d2t"] = self.d2t
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def target_ids(self) -> Tensor:
        """Target id of each row, int64 [r]."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def rows_of(self, ids: Tensor) -> Tensor:
        """Return the row of each target id, or -100 for ids that the draft model lacks: labels of its loss.

        Args:
            ids: target ids, integers ``[*]``.

        Returns:
            int64 ``[*]``; torch's losses leave out -100.

        Raises:
            BadInputError: for ids that are not integers.
        """
        ids = integer_ids(ids).long()
        known, order = self.target_ids.sort()
        places = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
        return torch.where(known[places] == ids, order[places], IGNORED)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits ``[*, r]`` of the kept ids, in the order of ``target_ids``.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``.
        """
        check_hidden(hidden, self.output.in_features)
        logits: Tensor = self.output(hidden)
        return logits

    def topk(self, hidden: Tensor, k: int) -> TopK:
        """Return the ``k`` largest logits of each hidden state, with the ids of the target model.

        A `TiedOutput` has the lowest row first among equal logits; an ``nn.Linear`` leaves their order open, as
        ``torch.topk`` does.

        Args:
            hidden: ``[*, d]``.
            k: number of logits, 1 to 1000 and at most r; a constant of the exported model.

        Returns:
            ``values`` ``[*, k]`` in descending order, and ``ids`` ``[*, k]``, int64.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``, or another ``k``.
        """
        if isinstance(self.output, TiedOutput):
            values, rows = self.output.topk(hidden, k)
        else:
            check_k(k, self.output.out_features)
            values, rows = self(hidden).topk(k)
        return TopK(values, rows + self.d2t[rows])


def frequent_ids(counts: ArrayLike, size: int) -> Tensor:
    """Return the ids of the most frequent tokens in ascending order, for `DraftOutput.from_linear`.

    Args:
        counts: frequency of each token of the target's vocabulary, finite numbers [n]; the lowest ids are first among
            equally frequent ones.
        size: number r of ids, at most n.

    Returns:
        int64 [r].

    Raises:
        BadInputError: for other counts or another size.
    """
    frequencies, number = checked_counts(counts), checked_count("size", size)
    if number > len(frequencies):
        raise BadInputError(f"size: got {number}, expected at most the {len(frequencies)} tokens of the counts")
    return frequencies.argsort(descending=True, stable=True)[:number].sort().values


def _checked_ids(target_ids: object) -> Tensor:
    """Return target ids as int64 [r]."""
    expected = "expected at least one integer, [r], such as those of frequent_ids"
    try:
        given = torch.as_tensor(target_ids)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"target_ids: got {target_ids!r:.80}, {expected}") from error
    if given.dtype not in INTEGER_TYPES or given.ndim != 1 or not len(given) or given.is_meta:
        raise BadInputError(f"target_ids: got {given.dtype} {list(given.shape)} on {given.device}, {expected}")
    return given.long()


def _checked_map(d2t: object, rows: int) -> Tensor:
    if not isinstance(d2t, Tensor) or d2t.dtype not in _MAPS or d2t.shape != (rows,):
        got = f"{d2t.dtype} {list(d2t.shape)}" if isinstance(d2t, Tensor) else f"a {type(d2t).__name__}"
        raise BadInputError(f"d2t: got {got}, expected int64 or int32 [{rows}], a number for each row of the layer")
    if d2t.is_meta:  # as all of a model that gets its numbers later
        return d2t
    ids = d2t.long() + torch.arange(rows, device=d2t.device)
    if int(ids.min()) < 0:
        row = int((ids < 0).nonzero()[0])
        raise BadInputError(f"d2t: got {int(d2t[row])} for row {row}, a target id below 0")
    if (repeated := repeated_id(ids)) is not None:
        remedy = "d2t is the target id minus the number of the row"
        raise BadInputError(f"d2t: got the target id {repeated} more than once; {remedy}")
    return d2t
