"""`TiedOutput`, an output layer over the table of an embedding layer.

logits[*, i] = <hidden[*], E[i]> + bias[i]      topk: the k largest of them, and their i
"""

from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.ops.ids import check_id_range, integer_ids
from edge_embed.ops.logits import check_hidden
from edge_embed.ops.topk import TopK

IGNORED = -100  # ignore_index of torch's cross entropy


@suggests_keywords
class TiedOutput(nn.Module):
    """Output layer that computes logits from a compressed table; the embedding layer holds the trainable parameters.

    With the model's input embedding, the two layers share one table, which both train and which is stored once. With
    an embedding layer of its own, the output layer is compressed but not tied. The logit of a padding row is 0 plus
    its bias.

    Eval mode and the exported file never materialise the dense table, nor does training with ANT. With other methods,
    training computes blocks of rows. It keeps all rows in two cases: if the table has at most 2^20 numbers, and on
    the CPU with at least d hidden states, as the logits are then no fewer numbers than the rows.

    Args:
        embedding: a `DPQEmbedding`, `ANTEmbedding`, `TTEmbedding` or `TREmbedding` (or one of their bags).
        bias: one number for each row, [n]; ``True`` for a bias that starts at zero, None for no bias.

    Shape:
        hidden ``[*, d]`` -> ``(*, n)``, in the dtype of ``hidden`` or of ``torch.autocast``, as ``nn.Linear``.

    Raises:
        BadInputError: if ``embedding`` is not a compressed layer, or the bias is not a float tensor [n].
    """

    bias: nn.Parameter | None

    def __init__(self, embedding: CompressedEmbedding, bias: Tensor | bool | None = None) -> None:
        super().__init__()
        if not isinstance(embedding, CompressedEmbedding):
            expected = "expected a compressed embedding layer, such as edge_embed.DPQEmbedding"
            raise BadInputError(f"embedding: got a {type(embedding).__name__}, {expected}")
        self.embedding = embedding
        if bias is None or bias is False:
            self.register_parameter("bias", None)
            return
        start = _zeros(embedding) if bias is True else bias
        if not isinstance(start, Tensor) or not start.is_floating_point():
            raise BadInputError(f"bias: got {start!r:.80}, expected a float tensor, True or None")
        if start.shape != (embedding.num_embeddings,):
            raise BadInputError(f"bias: got shape {list(start.shape)}, expected [{embedding.num_embeddings}]")
        self.bias = start if isinstance(start, nn.Parameter) else nn.Parameter(start.detach().clone())

    def __getattr__(self, name: str) -> Any:
        """Raise an error for ``weight``, which code of a model may ask for."""
        if name == "weight":
            raise AttributeError(
                "TiedOutput has no dense weight: call the layer, or save the dense model and compress it"
            )
        return super().__getattr__(name)

    @property
    def in_features(self) -> int:
        """Width d of the hidden states, the name of ``nn.Linear`` for the last dimension of hidden ``[*, d]``."""
        return self.embedding.embedding_dim

    @property
    def out_features(self) -> int:
        """Rows n of the table, the name of ``nn.Linear`` for the last dimension of logits ``[*, n]``."""
        return self.embedding.num_embeddings

    def extra_repr(self) -> str:
        """Return sizes, and whether there is a bias, as ``nn.Linear`` does."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits ``[*, n]`` of hidden states ``[*, d]``.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``.
        """
        return self.embedding.logits(hidden, self.bias)

    def topk(self, hidden: Tensor, k: int) -> TopK:
        """Return the ``k`` largest logits of each hidden state in descending order.

        The lowest id is first among equal logits. The result equals ``torch.topk(output_layer(hidden), k)``, which
        leaves the order of ties open. For a table that is frozen or in eval mode, and in the exported file, the logits
        are never all in memory.

        Args:
            hidden: ``[*, d]``.
            k: number of logits, 1 to 1000 and at most n; a constant of the exported model.

        Returns:
            ``values`` ``[*, k]`` in the dtype of the logits, differentiable, and ``ids`` ``[*, k]``, int64. If hidden
            states are not finite or a bias is NaN, the ids are k arbitrary, different ones.

        Raises:
            BadInputError: for hidden states that are not float ``[*, d]``, or another ``k``.
        """
        return self.embedding.topk(hidden, k, self.bias)


def _zeros(embedding: CompressedEmbedding) -> Tensor:
    """Return a bias [n] on the device of the table, which a frozen layer holds in buffers."""
    held = next(iter((*embedding.parameters(), *embedding.buffers())))
    return torch.zeros(embedding.num_embeddings, dtype=embedding.dtype, device=held.device)


def checked_batch(output_layer: TiedOutput, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return hidden states [B, d] and the right row of each, int64 [B], for a loss of an output layer.

    Args:
        output_layer: the output layer.
        hidden: ``[*, d]``.
        targets: ids of rows, integers ``[*]``; states with the target -100 are left out, as in torch's losses.

    Raises:
        BadInputError: if ``output_layer`` is not a `TiedOutput`, or for other shapes or types.
        IdOutOfRangeError: for a target outside the table.
    """
    if not isinstance(output_layer, TiedOutput):
        raise BadInputError(f"output_layer: got a {type(output_layer).__name__}, expected an edge_embed.TiedOutput")
    check_hidden(hidden, output_layer.in_features)
    targets = integer_ids(targets).long()
    if targets.shape != hidden.shape[:-1]:
        got = f"got targets {list(targets.shape)} and hidden states {list(hidden.shape)}"
        raise BadInputError(f"{got}, expected one target for each hidden state")
    counts = targets != IGNORED
    targets = targets[counts]
    check_id_range(targets, output_layer.out_features)
    return hidden[counts], targets
