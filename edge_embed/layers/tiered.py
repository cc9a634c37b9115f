"""`TieredEmbedding`: frequent rows of many bits, rare rows of few.

    row(id) = row of tier(id) at place(id)                             `edge_embed.packed.tier_map`

While it is trained, each of the three tiers is a layer: ``nn.Embedding`` (floats), `IntegerEmbedding`,
`DPQEmbedding` or `SharedDPQEmbedding`. Each trains by its own equations.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from edge_embed.errors import BadInputError, located
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.integers import IntegerEmbedding
from edge_embed.layers.stored import StoredNumbers
from edge_embed.layers.table import Memory
from edge_embed.layers.tier_arguments import Tier, checked_tier_of, checked_tiers
from edge_embed.layers.training_logits import keeps_rows
from edge_embed.ops import tiered
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import TableOperators, finish_rows, without_capture
from edge_embed.ops.storage import StoredType, rounded
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form
from edge_embed.packed.tier_map import NUM_TIERS, check_map, packed_map, positions_of, tiers_of
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import NO_MAP, TENSORS, TIERED_TENSORS, tensor_name

_FIRST = tensor_name(0, TENSORS[0])


@suggests_keywords
class TieredEmbedding(StoredNumbers):
    """Drop-in for ``nn.Embedding`` with three tiers of rows, from many bits for frequent rows to few for rare ones.

    A trainable layer holds ``tiers``, three layers that learn. A frozen layer (after `freeze` or `from_packed`) holds
    the packed arrays ``tier_0_codes``, ``tier_0_values``, ... and can no longer be trained. Both hold ``tier_map`` and
    ``tier_ranks``, which are empty if rows are sorted by tier. In eval mode both states return the same rows, bit for
    bit as the exported file does.

    Tiers of `DPQEmbedding` with ``variant="vq"`` learn by `edge_embed.layers.regularization.regularization_loss` of the
    model, as such layers do alone.

    Args:
        tiers: three layers of equal columns and dtype, without padding rows; an ``nn.Embedding`` of at most 65,536 rows
            and without further options. The table takes over their parameters; that of an ``nn.Embedding`` is then
            named ``rows``.
        tier_of: tier of each row, integers 0, 1 or 2 [n], tensor, array or list; by default rows are sorted by tier.
            `tiers_of_counts` finds it. The rows of a tier are in the order of their ids. A checkpoint with tiers of
            the same sizes replaces it; one of rows sorted by tier fits only a table of such rows.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient; negative ids count from the end.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for other layers, tiers that do not fit each other or ``tier_of``, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    tiers: nn.ModuleList
    tier_map: Tensor
    tier_ranks: Tensor
    positions: Tensor | None

    def __init__(self, tiers: Sequence[Tier], tier_of: ArrayLike | None = None, padding_idx: int | None = None) -> None:
        layers = checked_tiers(tiers)
        sizes = [layer.num_embeddings for layer in layers]
        super().__init__(sum(sizes), layers[0].embedding_dim, padding_idx, layers[0].dtype)
        rows = None if tier_of is None else checked_tier_of(tier_of, sizes)
        self.tiers = nn.ModuleList(layers)
        for name, array in zip(NO_MAP, _map(rows), strict=True):
            self.register_buffer(name, torch.tensor(array, device=layers[0].own_rows.device))
        self.register_buffer("positions", None, persistent=False)
        self._place_rows(rows)

    @classmethod
    def from_packed(cls, packed: PackedTiered) -> Self:
        """Return a frozen layer with a copy of the arrays of a packed table.

        Raises:
            BadInputError: for a table of another method.
        """
        check_form(packed, PackedTiered)
        empty = [IntegerEmbedding(tier.num_embeddings, packed.embedding_dim, device="meta") for tier in packed.tiers]
        layer = cls(empty, None, packed.padding_idx)
        layer._become_frozen(packed, torch.device("cpu"))
        return layer

    @property
    def frozen(self) -> bool:
        """Return whether the layer holds only the packed arrays and can no longer be trained."""
        return _FIRST in self._buffers

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows: float32, or float64 for trainable layers of float64."""
        return torch.float32 if self.frozen else torch.promote_types(self.dtype, torch.float32)

    def training_rows(self, ids: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Return the training rows [B, d] of the tiers."""
        tier, place = self._placed(ids)
        found = counts.new_zeros(len(ids), self.embedding_dim, dtype=self.dtype)
        return tiered.join_rows(
            found, tier, (place, counts), lambda number, *own: self._layers[number]._counted_rows(*own)
        )

    def training_logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the logits of training plus a bias [n]; for a large table they are those of the tiers, in turn."""
        if keeps_rows(self, hidden):
            return super().training_logits(hidden, bias)
        parts = [layer.training_logits(hidden) for layer in self._layers]
        logits = torch.cat(parts, -1)  # [*, n], sorted by tier
        if self.positions is not None:
            logits = logits.index_select(-1, self.positions)
        return logits if bias is None else logits + bias

    def to_packed(self) -> PackedTiered:
        """Return the packed form of the table; values are float16 if those of all codebooks and floats are."""
        if self.frozen:
            return tiered.pack(*self._arguments())
        tiers = []
        for number, layer in enumerate(self._layers):
            with located(f"tier {number}"):
                tiers.append(layer.to_packed())
        types = {tier.value_type for tier in tiers if tier.row_scales is None}
        return self._packed(tiers, "float16" if types == {"float16"} else "float32")

    def freeze(self, value_type: StoredType | None = None) -> Self:
        """Keep only the packed arrays, in place. Rows in eval mode stay bit for bit the same by default.

        Args:
            value_type: dtype that floats and values are rounded to, ``"float32"`` or ``"float16"``. By default they
                stay the same. Rows keep the dtype of the layer.

        Returns:
            The layer itself.

        Raises:
            BadInputError: if a number is not finite before or after rounding, for another dtype, or for tiers of
                float64 or bfloat16, which ``.float()`` converts.
        """
        packed = self.to_packed()
        if value_type is not None:
            packed = self._packed(packed.tiers, value_type)
        self._become_frozen(packed, self.tier_map.device)
        return self

    def _packed(self, tiers: Sequence[PackedDPQ], value_type: StoredType) -> PackedTiered:
        """Return the packed form of tiers whose values are rounded to a dtype."""
        every = []
        for number, tier in enumerate(tiers):
            with located(f"tier {number}"):
                values = rounded(torch.from_numpy(tier.values), value_type).numpy()
            every.append(replace(tier, values=values, padding_idx=None))
        tier_map, tier_ranks = (
            each.cpu().numpy() if each.numel() else None for each in (self.tier_map, self.tier_ranks)
        )
        return PackedTiered(tuple(every), tier_map, tier_ranks, self.padding_idx)

    def _become_frozen(self, packed: PackedTiered, device: torch.device) -> None:
        for name in ("tiers", "positions"):
            if hasattr(self, name):
                delattr(self, name)
        for name, array in packed.tensors().items():
            self.register_buffer(name, torch.tensor(array, device=device))

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Take the sizes of a frozen checkpoint, so that a newly constructed model can load it, or the map of another.

        Reasons for a refusal are added to the errors in ``rest``, as `_takes` does.
        """
        sizes = {name: getattr(state_dict.get(prefix + name), "shape", ()) for name in TIERED_TENSORS}
        own = {name: tensor.shape for name, tensor in self._buffers.items() if tensor is not None}
        if prefix + _FIRST in state_dict and sizes != own:
            if not self._takes(state_dict, prefix, sizes, rest):
                return
            try:
                packed = self._of_same_size({name: state_dict[prefix + name] for name in TIERED_TENSORS})
            except BadInputError as error:
                rest[-1].append(f"size mismatch for {prefix.removesuffix('.') or 'the table'}: {error}")
                state_dict.update(self.state_dict(prefix=prefix, keep_vars=True))
                return
            self._become_frozen(packed, self.tier_map.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        if not self.frozen and self.positions is not None:
            try:
                stored = self.tier_map.cpu().numpy(), self.tier_ranks.cpu().numpy()
                check_map(*stored, tuple(layer.num_embeddings for layer in self._layers))
                self._place_rows(tiers_of(stored[0], self.num_embeddings))
            except BadInputError as error:
                rest[-1].append(f"{prefix}{error}")

    def _of_same_size(self, stored: Mapping[str, Tensor]) -> PackedTiered:
        """Return the table of tensors by their packed names; raise `BadInputError` for one of other rows or columns."""
        packed = tiered.pack(*self._as_arguments(stored))
        packed.check()
        got, expected = ((table.num_embeddings, table.embedding_dim) for table in (packed, self))
        if got != expected:
            raise BadInputError(f"got a table of {list(got)}, expected {list(expected)}")
        return packed

    @property
    def _layers(self) -> list[Any]:
        """Layers of the tiers."""
        return list(self.tiers)

    def _place_rows(self, tier_of: NDArray[np.uint8] | None) -> None:
        """Remember the position of each row among all rows sorted by tier, and tell its tier of the padding row.

        Positions are int32 [n], and None if rows are sorted. To find a row in the map takes 256 comparisons instead.
        """
        positions = None if tier_of is None else positions_of(tier_of)
        self.positions = None if positions is None else torch.from_numpy(positions).to(self.tier_map.device)
        position = self.padding_idx
        if position is not None and positions is not None:
            position = int(positions[position])
        for layer in self._layers:
            is_here = position is not None and 0 <= position < layer.num_embeddings
            layer.padding_idx = position if is_here else None
            position = None if position is None else position - layer.num_embeddings

    def _placed(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tier of ids int64 [B], and the row in it: int64 [B] each."""
        position = ids if self.positions is None else self.positions.index_select(0, ids).long()
        tier, place = torch.zeros_like(ids), position
        begin = 0
        for layer in self._layers[:-1]:
            begin += layer.num_embeddings
            tier = tier + (position >= begin)
            place = torch.where(position >= begin, position - begin, place)
        return tier, place

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.frozen:
            return tiered.TIERED, self._arguments()
        return _OF_LAYERS, (self, self.padding_idx)

    def _arguments(self) -> tuple[Any, ...]:
        return self._as_arguments({name: self.get_buffer(name) for name in TIERED_TENSORS})

    def _as_arguments(self, stored: Mapping[str, Tensor]) -> tuple[Any, ...]:
        """Return the arguments of the operators over tensors by their packed names."""
        each = {name: [stored[tensor_name(number, name)] for number in range(NUM_TIERS)] for name in TENSORS}
        groups = [self.embedding_dim // max(1, *values.shape[2:]) for values in each["values"]]
        return *(stored[name] for name in NO_MAP), *each.values(), groups, self.padding_idx

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, {NUM_TIERS} tiers{padding}, frozen={self.frozen}"


def frozen_layer(packed: PackedTiered) -> TieredEmbedding:
    """Return a frozen layer with a copy of a packed table."""
    return TieredEmbedding.from_packed(packed)


def _map(rows: NDArray[np.uint8] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ``tier_map`` and ``tier_ranks`` of the tier of each row; without elements if rows are sorted."""
    if rows is not None:
        return packed_map(rows)
    tier_map, tier_ranks = (np.zeros(spec.shape, spec.dtype) for spec in NO_MAP.values())
    return tier_map, tier_ranks


def _rows(ids: Tensor, layer: TieredEmbedding, padding_idx: int | None) -> Tensor:
    """Return rows in eval mode [*ids, d] of a layer that is not frozen."""
    check_id_range(ids, layer.num_embeddings)
    flat = ids.reshape(-1).long()
    tier, place = layer._placed(flat)
    found = torch.zeros(len(flat), layer.embedding_dim, dtype=layer.stored_type, device=ids.device)
    found = tiered.join_rows(found, tier, [place], lambda number, own: layer._layers[number].use("rows", own))
    return finish_rows(found, ids, padding_idx)


_OF_LAYERS = without_capture("tiers", _rows, lambda layer, padding_idx: (layer.num_embeddings, layer.embedding_dim))
