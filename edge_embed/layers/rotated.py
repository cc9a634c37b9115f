"""Layers over a compressed table with rotated rows, which OPQ (`edge_embed.fitting.opq`) puts into a model.

rows(ids) = plain_rows(ids) R          logits(h) = plain_logits(h R^T)          R [d, d], which is not trained
"""

from typing import Any

from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.bag import Bag
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.ops.topk import TopK


class RotatedEmbedding(nn.Module):
    """Rows of a layer, or sums or means of its rows, times a rotation.

    Args:
        embedding: a compressed embedding layer or a bag of one, except a bag of mode ``"max"``.
        rotation: R [d, d].

    Shape:
        as of ``embedding``.

    Raises:
        BadInputError: for a rotation of another shape, or a bag of mode ``"max"``.
    """

    rotation: Tensor

    def __init__(self, embedding: CompressedEmbedding, rotation: Tensor) -> None:
        super().__init__()
        _check_rotation(rotation, embedding.embedding_dim)
        if isinstance(embedding, Bag) and embedding.mode == "max":
            raise BadInputError(
                "embedding: got a bag of mode 'max', which a rotation changes; expected 'sum' or 'mean'"
            )
        self.embedding = embedding
        self.register_buffer("rotation", rotation)

    def forward(self, *arguments: Tensor, **named: Any) -> Tensor:
        """Return the rotated output of ``embedding`` for the same arguments."""
        rows: Tensor = self.embedding(*arguments, **named)
        return (rows @ self.rotation.to(rows.dtype)).to(rows.dtype)  # autocast would change the dtype of the rows


class RotatedOutput(nn.Module):
    """Logits of a table with rotated rows, computed from hidden states that are rotated back.

    Args:
        output: an output layer over the table as it is stored.
        rotation: R [d, d].

    Shape:
        hidden ``[*, d]`` -> ``(*, n)``.

    Raises:
        BadInputError: for a rotation of another shape.
    """

    rotation: Tensor

    def __init__(self, output: TiedOutput, rotation: Tensor) -> None:
        super().__init__()
        _check_rotation(rotation, output.in_features)
        self.output = output
        self.register_buffer("rotation", rotation)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits ``[*, n]``, as `TiedOutput` does."""
        logits: Tensor = self.output(self._rotated_back(hidden))
        return logits

    def topk(self, hidden: Tensor, k: int) -> TopK:
        """Return the ``k`` largest logits, as `TiedOutput.topk` does."""
        return self.output.topk(self._rotated_back(hidden), k)

    def _rotated_back(self, hidden: Tensor) -> Tensor:
        return hidden @ self.rotation.to(hidden.dtype).t()


def rotated(layer: CompressedEmbedding | TiedOutput, rotation: Tensor) -> RotatedEmbedding | RotatedOutput:
    """Wrap a layer so that the rows of its table are rotated."""
    return RotatedOutput(layer, rotation) if isinstance(layer, TiedOutput) else RotatedEmbedding(layer, rotation)


def _check_rotation(rotation: Tensor, dim: int) -> None:
    """Raise `BadInputError` unless the rotation is a float tensor [d, d]."""
    if not rotation.is_floating_point() or rotation.shape != (dim, dim):
        got = f"{str(rotation.dtype).removeprefix('torch.')} {list(rotation.shape)}"
        raise BadInputError(f"rotation: got {got}, expected floats [{dim}, {dim}]")
