"""Layers over a compressed table whose rows are rotated: what OPQ (`edge_embed.fitting.opq`) puts into a model.

rows(ids) = plain_rows(ids) R          logits(h) = plain_logits(h R^T)          R [d, d], which does not learn
"""

from typing import Any

from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.bag import Bag
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.ops.topk import TopK


class RotatedEmbedding(nn.Module):
    """Rows of a layer, or its sums or means of rows, times a rotation.

    Args:
        embedding: a compressed embedding layer, or one of their bags, but not of the largest numbers.
        rotation: R [d, d].

    Shape:
        as of ``embedding``.

    Raises:
        BadInputError: for another shape, or a bag of the largest numbers.
    """

    rotation: Tensor

    def __init__(self, embedding: CompressedEmbedding, rotation: Tensor) -> None:
        super().__init__()
        _check_rotation(rotation, embedding.embedding_dim)
        if isinstance(embedding, Bag) and embedding.mode == "max":
            raise BadInputError(
                "embedding: got a bag of mode 'max', which a rotation changes: expected 'sum' or 'mean'"
            )
        self.embedding = embedding
        self.register_buffer("rotation", rotation)

    def forward(self, *arguments: Tensor, **named: Any) -> Tensor:
        """What ``embedding`` gives for the same arguments, rotated."""
        rows: Tensor = self.embedding(*arguments, **named)
        return (rows @ self.rotation.to(rows.dtype)).to(rows.dtype)  # autocast leaves the type of rows


class RotatedOutput(nn.Module):
    """Logits of a table whose rows are rotated, of hidden states that are turned back.

    Args:
        output: an output layer over the table as it is stored.
        rotation: R [d, d].

    Shape:
        hidden [*, d] -> (*, n).

    Raises:
        BadInputError: for another shape.
    """

    rotation: Tensor

    def __init__(self, output: TiedOutput, rotation: Tensor) -> None:
        super().__init__()
        _check_rotation(rotation, output.in_features)
        self.output = output
        self.register_buffer("rotation", rotation)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [*, n], as of `TiedOutput`."""
        logits: Tensor = self.output(self._turned_back(hidden))
        return logits

    def topk(self, hidden: Tensor, k: int) -> TopK:
        """The ``k`` largest, as of `TiedOutput.topk`."""
        return self.output.topk(self._turned_back(hidden), k)

    def _turned_back(self, hidden: Tensor) -> Tensor:
        return hidden @ self.rotation.to(hidden.dtype).t()


def rotated(layer: CompressedEmbedding | TiedOutput, rotation: Tensor) -> RotatedEmbedding | RotatedOutput:
    """The layer with a rotation of the rows of its table."""
    return RotatedOutput(layer, rotation) if isinstance(layer, TiedOutput) else RotatedEmbedding(layer, rotation)


def _check_rotation(rotation: Tensor, dim: int) -> None:
    """Refuse what is no float tensor [d, d]."""
    if not rotation.is_floating_point() or rotation.shape != (dim, dim):
        got = f"{str(rotation.dtype).removeprefix('torch.')} {list(rotation.shape)}"
        raise BadInputError(f"rotation: got {got}, expected floats [{dim}, {dim}]")
