"""Bags of rows: the layers of all methods in the form of ``nn.EmbeddingBag``.

sum_b = sum_i w_i E[ids_i]      mean_b = sum_i E[ids_i] / count_b      max_b = max_i E[ids_i]
"""

import inspect
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.keywords import check_keywords
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.ops.bag import MODES, check_offsets, reduce_bags
from edge_embed.ops.ids import integer_ids

Mode = Literal["sum", "mean", "max"]


class Bag(CompressedEmbedding):
    """Mixin that turns an embedding layer into one that reduces bags. List it before the layer in the bases of a class.

    Args:
        *arguments: arguments of the embedding layer.
        mode: ``"sum"``, ``"mean"`` or ``"max"``. Ids equal to ``padding_idx`` are ignored, and empty bags are zero.
        include_last_offset: whether offsets end with the number of ids, as in the CSR format.
        **options: keyword arguments of the embedding layer.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """

    __signature__: ClassVar[inspect.Signature | None]

    def __init_subclass__(cls, **options: Any) -> None:
        """Show the arguments of the layer in ``help`` and `inspect.signature` instead of ``*arguments, **options``."""
        super().__init_subclass__(**options)
        cls.__signature__ = _signature(cls) if cls.__init__ is Bag.__init__ else None

    def __init__(self, *arguments: Any, mode: Mode = "mean", include_last_offset: bool = False, **options: Any) -> None:
        check_keywords(type(self).__name__, options, self._keywords())
        super().__init__(*arguments, **options)
        if mode not in MODES:
            raise BadInputError(f"mode must be one of {', '.join(MODES)}, got {mode!r:.80}")
        self.mode, self.include_last_offset = mode, include_last_offset

    def _keywords(self) -> Iterable[str]:
        """Return the names of the arguments of the bag; a subclass may have other ones."""
        signatures = (vars(kind).get("__signature__") for kind in type(self).__mro__)
        signature: inspect.Signature = next(filter(None, signatures))
        return signature.parameters

    def forward(self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return the reduced row of every bag.

        Args:
            ids: integers, [B, L] with one bag a row, or [N].
            offsets: start of each bag, for ids [N].
            per_sample_weights: factor of each id in the shape of ``ids``, for mode ``"sum"``.

        Returns:
            Float [B, d].

        Raises:
            BadInputError: for other shapes, offsets that fall or lie outside, or weights in another mode.
            IdOutOfRangeError: for ids below 0 or at least n.
        """
        ids = integer_ids(ids)
        bounds = self._bounds(ids, offsets)
        weights = self._weights(ids, per_sample_weights)
        flat = ids.reshape(-1)
        if self.learns:
            check_offsets(bounds, flat.shape[0])
            rows = self._learning_rows(flat.long())  # [N, d]
            return reduce_bags(rows, flat, bounds, weights, self.mode, self.padding_idx)
        return self.use("bag", flat, bounds, weights, self.mode)

    def _bounds(self, ids: Tensor, offsets: Tensor | None) -> Tensor:
        """Return the start of each bag, followed by the number of ids: int64 [B + 1]."""
        if ids.ndim == 2 and offsets is None:
            return torch.arange(ids.shape[0] + 1, device=ids.device) * ids.shape[1]
        if ids.ndim != 1 or not isinstance(offsets, Tensor) or offsets.ndim != 1:
            shown = list(offsets.shape) if isinstance(offsets, Tensor) else offsets
            got = f"got ids {list(ids.shape)} and offsets {shown!r:.80}"
            raise BadInputError(f"{got}, expected ids [B, L], or ids [N] with offsets [B]")
        if offsets.is_floating_point():
            raise BadInputError(f"offsets must be integers, got {offsets.dtype}: convert them with offsets.long()")
        begins = integer_ids(offsets).long()
        if self.include_last_offset:
            _check_example(offsets.shape[0])
            return begins
        return torch.cat((begins, begins.new_full((1,), ids.shape[0])))

    def _weights(self, ids: Tensor, weights: Tensor | None) -> Tensor | None:
        if weights is None:
            return None
        if self.mode != "sum":
            raise BadInputError(f'per_sample_weights require mode "sum", got mode {self.mode!r}')
        if weights.shape != ids.shape:
            raise BadInputError(f"per_sample_weights: got shape {list(weights.shape)}, expected {list(ids.shape)}")
        return weights.reshape(-1).to(self.stored_type)

    def extra_repr(self) -> str:
        """Return sizes, state and mode for ``print(model)``."""
        return f"{super().extra_repr()}, mode={self.mode!r}"


def _check_example(num_offsets: int | torch.SymInt) -> None:
    """Refuse one bag as the example of a model: ``torch.export`` would fix the number of bags, len(offsets) - 1 = 1."""
    if torch.compiler.is_exporting() and isinstance(num_offsets, torch.SymInt) and num_offsets.node.hint == 2:
        raise BadInputError("offsets: got an example of one bag with include_last_offset, expected at least two bags")


def _signature(bag: type[Bag]) -> inspect.Signature:
    """Return a signature with the arguments of the embedding layer of ``bag`` and those of every bag."""
    layer = bag.__mro__[bag.__mro__.index(Bag) + 1]
    own = [p for p in inspect.signature(Bag).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return inspect.Signature(sorted([*inspect.signature(layer).parameters.values(), *own], key=lambda p: p.kind))


class DPQEmbeddingBag(Bag, DPQEmbedding):
    """`DPQEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``DPQEmbeddingBag(num_embeddings, embedding_dim, num_codes, num_groups, mode="mean")`` accepts every argument of
    `DPQEmbedding`, and two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``.
    ``include_last_offset=True`` means that offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class ScaledDPQEmbeddingBag(Bag, ScaledDPQEmbedding):
    """`ScaledDPQEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``ScaledDPQEmbeddingBag(packed, mode="mean")`` also accepts the keyword arguments of `Bag`.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class IntegerEmbeddingBag(Bag, IntegerEmbedding):
    """`IntegerEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``IntegerEmbeddingBag(num_embeddings, embedding_dim, bits=4, mode="mean")`` accepts every argument of
    `IntegerEmbedding`, and two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``.
    ``include_last_offset=True`` means that offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class TieredEmbeddingBag(Bag, TieredEmbedding):
    """`TieredEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``TieredEmbeddingBag(tiers, tier_of, mode="mean")`` accepts every argument of `TieredEmbedding`, and two keyword
    arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``. ``include_last_offset=True`` means that offsets end with
    the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class ANTEmbeddingBag(Bag, ANTEmbedding):
    """`ANTEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``ANTEmbeddingBag(num_embeddings, embedding_dim, num_anchors, mode="mean")`` accepts every argument of
    `ANTEmbedding`, and two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``.
    ``include_last_offset=True`` means that offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class ANTMixtureEmbeddingBag(Bag, ANTMixtureEmbedding):
    """`ANTMixtureEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``ANTMixtureEmbeddingBag(num_embeddings, embedding_dim, set_sizes, mixing, mode="mean")`` accepts every argument of
    `ANTMixtureEmbedding`, and two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``.
    ``include_last_offset=True`` means that offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class TTEmbeddingBag(Bag, TTEmbedding):
    """`TTEmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``TTEmbeddingBag(num_embeddings, embedding_dim, rank, mode="mean")`` accepts every argument of `TTEmbedding`, and
    two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``. ``include_last_offset=True`` means that
    offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


class TREmbeddingBag(Bag, TREmbedding):
    """`TREmbedding` in the form of ``nn.EmbeddingBag``: one vector for each bag of ids.

    ``TREmbeddingBag(num_embeddings, embedding_dim, rank, mode="mean")`` accepts every argument of `TREmbedding`, and
    two keyword arguments. ``mode`` is ``"sum"``, ``"mean"`` or ``"max"``. ``include_last_offset=True`` means that
    offsets end with the number of ids.

    Shape:
        ids [B, L], or ids [N] with offsets [B] (or [B + 1]) -> (B, d).
    """


def bag_of(layer: CompressedEmbedding, mode: Mode, include_last_offset: bool = False) -> Bag:
    """Turn a layer of rows into one that reduces bags, in place: the object gets the class of its bags."""
    layer.__class__ = next(kind for kind in _KINDS if kind.__bases__[1] is type(layer))
    assert isinstance(layer, Bag)
    layer.mode, layer.include_last_offset = mode, include_last_offset
    return layer


_KINDS: tuple[type[Bag], ...] = (
    DPQEmbeddingBag,
    ScaledDPQEmbeddingBag,
    IntegerEmbeddingBag,
    TieredEmbeddingBag,
    ANTEmbeddingBag,
    ANTMixtureEmbeddingBag,
    TTEmbeddingBag,
    TREmbeddingBag,
)
