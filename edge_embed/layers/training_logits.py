"""Logits in training: products with all rows, which are kept for the backward pass or recomputed block by block."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.ops.autograd_state import is_recomputed
from edge_embed.ops.logits import row_blocks, without_autocast

if TYPE_CHECKING:
    from edge_embed.layers.table import CompressedEmbedding, Memory


def logits_of_training_rows(layer: "CompressedEmbedding", hidden: Tensor, bias: Tensor | None) -> Tensor:
    """Return the products ``[*, n]`` of hidden states ``[*, d]`` with the layer's training rows, plus a bias [n]."""
    if keeps_rows(layer, hidden):
        return _logits_of_all_rows(layer, hidden, bias)
    flat = hidden.reshape(-1, layer.embedding_dim)  # [B, d]
    logits = _BlockedLogits.apply(layer, flat, bias, *layer.parameters())  # type: ignore[no-untyped-call]
    result: Tensor = logits.reshape(*hidden.shape[:-1], layer.num_embeddings)
    return result


def keeps_rows(layer: "CompressedEmbedding", hidden: Tensor) -> bool:
    """Return whether logits of hidden states ``[*, d]`` keep all rows: those of one block, or fewer than logits."""
    _, end = next(row_blocks(layer.num_embeddings, layer.embedding_dim))
    # An accelerator has no kernel that recomputes the distances of DPQ: all rows would keep K D numbers each.
    are_few = hidden.device.type == "cpu" and hidden.numel() >= layer.embedding_dim**2
    return end == layer.num_embeddings or are_few


def _logits_of_all_rows(layer: "CompressedEmbedding", hidden: Tensor, bias: Tensor | None) -> Tensor:
    """Return the logits ``[*, n]`` from all rows, which stay in memory for the faster backward pass.

    Used for small tables, and for tables of fewer numbers than the logits.
    """
    ids = slice(0, layer.num_embeddings)
    own = torch.arange(ids.stop, device=hidden.device) if layer.own_rows is None else layer.own_rows
    block = _block(layer, ids, own, update=not is_recomputed(), memory={})
    rows = block.without_padding(block.rows).to(hidden.dtype)
    with without_autocast(hidden.device):  # keep the dtype of hidden states, as with blocks
        return functional.linear(hidden, rows, bias)


class _BlockedLogits(torch.autograd.Function):
    """hidden [B, d], bias [n] -> logits [B, n], one block of rows at a time; the backward pass recomputes the rows.

    A bias is an additional column of the rows, with 1 in the hidden states. A separate pass over all logits would take
    as long as much of the product.
    """

    @staticmethod
    def forward(
        ctx: Any, layer: "CompressedEmbedding", hidden: Tensor, bias: Tensor | None, *parameters: Tensor
    ) -> Tensor:
        ctx.layer, ctx.memories, ctx.has_bias = layer, defaultdict(dict), bias is not None
        hidden = hidden if bias is None else torch.cat((hidden, torch.ones_like(hidden[:, :1])), 1)  # [B, d or d + 1]
        ctx.save_for_backward(hidden, *parameters)
        logits = hidden.new_empty(hidden.shape[0], layer.num_embeddings)
        for block in _blocks(layer, hidden.device, ctx.memories, update=True):
            rows = block.without_padding(block.rows).to(hidden.dtype)
            if bias is not None:
                rows = torch.cat((rows, bias[block.place].unsqueeze(1)), 1)
            torch.mm(hidden, rows.t(), out=logits[:, block.place])
        return logits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, *_ = ctx.saved_tensors  # saved parameters are only checked for changes; hooks may return copies
        width = ctx.layer.embedding_dim
        parameters, own_rows = list(ctx.layer.parameters()), ctx.layer.own_rows
        learned = {id(parameter): torch.zeros_like(parameter) for parameter in parameters if parameter.requires_grad}
        shared = [parameter for parameter in parameters if parameter.requires_grad and parameter is not own_rows]
        of_hidden = torch.zeros_like(hidden[:, :width])
        of_bias = hidden.new_empty(ctx.layer.num_embeddings) if ctx.has_bias else None
        with torch.enable_grad():
            for block in _blocks(ctx.layer, hidden.device, ctx.memories, update=False):
                gradient = gradients[0][:, block.place]  # [B, block]
                of_hidden += gradient @ block.without_padding(block.rows.detach()).to(hidden.dtype)
                of_rows = gradient.t() @ hidden  # [block, d or d + 1]
                if of_bias is not None:
                    of_bias[block.place] = of_rows[:, width]
                of_rows = block.without_padding(of_rows[:, :width]).to(block.rows.dtype)
                wanted = [block.own, *shared] if block.own.requires_grad else shared
                parts = list(torch.autograd.grad(block.rows, wanted, of_rows, materialize_grads=True))
                if block.own.requires_grad:
                    learned[id(own_rows)][block.place] = parts.pop(0)
                for parameter, part in zip(shared, parts, strict=True):
                    learned[id(parameter)] += part
        return None, of_hidden, of_bias, *(learned.get(id(parameter)) for parameter in parameters)


class _Block(NamedTuple):
    """Consecutive rows in training.

    Attributes:
        place: slice of their ids.
        padding: position of the padding row among them, or None.
        own: rows of `own_rows`, or ids. With several blocks it is a leaf of autograd: the gradient of a part of
            `own_rows` would be as large as the whole parameter, for each block.
        rows: [block, d]; the padding row holds anything.
    """

    place: slice
    padding: int | None
    own: Tensor
    rows: Tensor

    def without_padding(self, numbers: Tensor) -> Tensor:
        """Return numbers of each row, [block, *], with 0 for the padding row."""
        if self.padding is None:
            return numbers
        return numbers.index_fill(0, torch.tensor([self.padding], device=numbers.device), 0.0)


def _blocks(
    layer: "CompressedEmbedding", device: torch.device, memories: Mapping[int, "Memory"], update: bool
) -> Iterator[_Block]:
    """Yield all rows in blocks; each row counts once, the padding row not at all."""
    own_rows, update = layer.own_rows, update and not is_recomputed()
    for begin, end in row_blocks(layer.num_embeddings, layer.embedding_dim):
        place = slice(begin, end)
        if own_rows is None:
            own = torch.arange(begin, end, device=device)
        else:
            own = own_rows[place].detach().requires_grad_(own_rows.requires_grad)
        yield _block(layer, place, own, update, memories[begin])


def _block(layer: "CompressedEmbedding", place: slice, own: Tensor, update: bool, memory: "Memory") -> _Block:
    """Return the block of the ids in ``place``, computed from ``own``."""
    counts = torch.ones(place.stop - place.start, dtype=torch.int64, device=own.device)
    padding = None
    if layer.padding_idx is not None and place.start <= layer.padding_idx < place.stop:
        padding = layer.padding_idx - place.start
        counts[padding] = 0
    rows = layer.training_block(place.start, place.stop, own, counts, update, memory)
    return _Block(place, padding, own, rows)
