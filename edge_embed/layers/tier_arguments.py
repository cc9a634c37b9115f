"""Arguments of `edge_embed.layers.tiered.TieredEmbedding`: its layers, and the tier of each row."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from edge_embed.errors import BadInputError, located
from edge_embed.layers.arguments import INTEGER_TYPES, checked_count, checked_counts
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.float_rows import FloatRows
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.layers.shared_dpq import SharedDPQEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.packed.tier_map import NUM_TIERS

Tier = nn.Embedding | IntegerEmbedding | DPQEmbedding
_KINDS = "nn.Embedding, edge_embed.IntegerEmbedding, edge_embed.DPQEmbedding or edge_embed.SharedDPQEmbedding"


def tiers_of_counts(counts: ArrayLike, sizes: Sequence[int]) -> Tensor:
    """Return the tier of each row, the most frequent rows in the first one.

    Args:
        counts: frequency of each row, finite numbers [n]; equally frequent rows are in the order of their ids.
        sizes: number of rows of each tier, n in all.

    Returns:
        uint8 [n].

    Raises:
        BadInputError: for other counts, or sizes of another sum.
    """
    frequencies = checked_counts(counts)
    given = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    numbers = [checked_count("sizes", size) for size in given]
    if len(numbers) != NUM_TIERS or sum(numbers) != len(frequencies):
        got = f"sizes: got {given!r:.80} for {len(frequencies)} counts"
        raise BadInputError(f"{got}, expected {NUM_TIERS} numbers of rows with that sum")
    order = frequencies.argsort(descending=True, stable=True)
    tiers = torch.arange(NUM_TIERS, dtype=torch.uint8).repeat_interleave(torch.tensor(numbers))
    return torch.empty_like(tiers).index_copy_(0, order, tiers)


def checked_tiers(tiers: Sequence[Tier]) -> list[Any]:
    """Return the layers of the tiers."""
    given = list(tiers) if isinstance(tiers, Iterable) else [tiers]
    if len(given) != NUM_TIERS:
        raise BadInputError(f"tiers: got {len(given)}, expected {NUM_TIERS} layers: {_KINDS}")
    layers = list[Any]()
    for number, tier in enumerate(given):
        with located(f"tier {number}"):
            if any(tier is other for other in given[:number]):
                raise BadInputError("got the layer of another tier, expected one of its own")
            layers.append(_checked_tier(tier))
            got, expected = (_columns(each) for each in (layers[-1], layers[0]))
            if got != expected:
                raise BadInputError(f"got {got}, expected {expected} as in tier 0")
            if isinstance(tier, SharedDPQEmbedding) and not any(tier.owner is other for other in given):
                raise BadInputError("got codebooks of another table, expected those of another tier")
    return layers


def _columns(layer: Any) -> str:
    return f"{layer.embedding_dim} columns of {layer.dtype} on {layer.own_rows.device}"


def _checked_tier(tier: object) -> CompressedEmbedding:
    if type(tier) is nn.Embedding and isinstance(tier.weight, nn.Parameter):
        return FloatRows(tier)
    if type(tier) not in (IntegerEmbedding, DPQEmbedding, SharedDPQEmbedding):
        raise BadInputError(f"got a {type(tier).__name__}, expected {_KINDS}")
    assert isinstance(tier, CompressedEmbedding)
    if tier.frozen or tier.padding_idx is not None:
        got = "a frozen layer" if tier.frozen else f"padding_idx={tier.padding_idx}"
        raise BadInputError(f"got {got}, expected a trainable layer without; the table has the padding row")
    return tier


def checked_tier_of(tier_of: object, sizes: list[int]) -> NDArray[np.uint8] | None:
    """Return the tier of each row, uint8 [n], or None if rows are sorted by tier."""
    n = sum(sizes)
    try:
        given = torch.as_tensor(tier_of)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"tier_of: got {tier_of!r:.80}, expected integers [{n}], a tier for each row") from error
    if given.dtype not in INTEGER_TYPES or given.layout != torch.strided or given.shape != (n,):
        raise BadInputError(
            f"tier_of: got {given.dtype} {list(given.shape)}, expected integers [{n}], a tier for each row"
        )
    given = given.cpu()
    if given.min() < 0 or given.max() >= NUM_TIERS:
        raise BadInputError(f"tier_of: got {int(given.min())} to {int(given.max())}, expected 0 to {NUM_TIERS - 1}")
    rows: NDArray[np.uint8] = given.numpy().astype(np.uint8)
    if (got := np.bincount(rows, minlength=NUM_TIERS).tolist()) != sizes:
        raise BadInputError(f"tier_of: got {got} rows of the tiers, expected {sizes}, the rows of their layers")
    return None if (rows[1:] >= rows[:-1]).all() else rows
