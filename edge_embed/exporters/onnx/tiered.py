"""Tiered tables in ONNX: the nodes ``edge_embed::Tiered...`` and the portable body of rows.

    ids, tier_map uint8 [blocks, 64], tier_ranks int32 [blocks, 3], 3 times <codes, values, scales of rows>
        ->  rows float32 [*ids, d]

The body finds tier and place of each id (`edge_embed.packed.tier_map`). The ids of each tier are looked up by a node of
DPQ, and the rows are put in the order of the ids. Ids out of range lead to a block or place that ``Gather`` refuses.
"""

from collections.abc import Sequence
from typing import Any

from edge_embed.exporters.onnx.dpq import DPQ
from edge_embed.exporters.onnx.method import OnnxMethod
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.exporters.onnx.nodes import tiered as nodes
from edge_embed.ops import tiered
from edge_embed.packed.bits import bits_for
from edge_embed.packed.tier_map import BITS, BLOCK, NUM_TIERS
from edge_embed.packed.tiered import PackedTiered

FORMAT_VERSION = 1

# tier and place: [B]
_PLACES = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  axis_1 = Constant <value_ints: ints = [1]> ()
  any_size = Constant <value_ints: ints = [-1]> ()
  flat_ids = Reshape (ids, any_size)
  wide_ids = Cast <to: int = 7> (flat_ids)
  id_column = Unsqueeze (wide_ids, axis_1)
{sizes}
  sizes = Concat <axis: int = 0> ({size_names})
  map_size = Size (tier_map)
  has_map = Greater (map_size, zero)
  tier, place = If (has_map) <
    then_branch = by_map () => (mapped_tier, mapped_place) {{
      block_rows = Constant <value_int: int = {block}> ()
      inside = Div (wide_ids, block_rows)
      negative = Less (wide_ids, zero)
      num_blocks_1d = Shape <start: int = 0, end: int = 1> (tier_map)
      num_blocks = Squeeze (num_blocks_1d, axis_0)
      id_block = Where (negative, num_blocks, inside)
      at = Mod (id_column, block_rows)
      stored = Gather <axis: int = 0> (tier_map, id_block)
      stored_numbers = Cast <to: int = 6> (stored)
      last = Constant <value_ints: ints = [2]> ()
      bytes = Unsqueeze (stored_numbers, last)
      divisors = Constant <value: tensor = int32[{per_byte}] {{{divisors}}}> ()
      num_codes = Constant <value: tensor = int32 {{{codes}}}> ()
      shifted = Div (bytes, divisors)
      by_byte = Mod (shifted, num_codes)
      batch_1d = Shape (wide_ids)
      block_rows_1d = Unsqueeze (block_rows, axis_0)
      tiers_shape = Concat <axis: int = 0> (batch_1d, block_rows_1d)
      tiers = Reshape <allowzero: int = 1> (by_byte, tiers_shape)
      own = GatherElements <axis: int = 1> (tiers, at)
      has_own = Equal (tiers, own)
      numbers = Range (zero, block_rows, one)
      is_before = Less (numbers, at)
      counted = And (has_own, is_before)
      ones = Cast <to: int = 7> (counted)
      before = ReduceSum <keepdims: int = 1> (ones, axis_1)
      own_tier = Cast <to: int = 7> (own)
      ranks = Gather <axis: int = 0> (tier_ranks, id_block)
      rank = GatherElements <axis: int = 1> (ranks, own_tier)
      wide_rank = Cast <to: int = 7> (rank)
      place_column = Add (wide_rank, before)
      mapped_tier = Squeeze (own_tier, axis_1)
      mapped_place = Squeeze (place_column, axis_1)
    }},
    else_branch = by_order () => (ordered_tier, ordered_place) {{
      ends = CumSum (sizes, zero)
      starts = Sub (ends, sizes)
      after = GreaterOrEqual (id_column, ends)
      after_ends = Cast <to: int = 7> (after)
      tier_or_more = ReduceSum <keepdims: int = 0> (after_ends, axis_1)
      last_tier = Constant <value_int: int = {last_tier}> ()
      ordered_tier = Min (tier_or_more, last_tier)
      start = Gather (starts, ordered_tier)
      ordered_place = Sub (wide_ids, start)
    }}
  >
"""
_SIZE = "  size_{t} = Shape <start: int = 0, end: int = 1> (tier_{t}_codes)"

# rows_{t}: [ids of the tier, d]
_TIER = """
  number_{t} = Constant <value_int: int = {t}> ()
  is_{t} = Equal (tier, number_{t})
  found_{t} = NonZero (is_{t})
  at_{t} = Squeeze (found_{t}, axis_0)
  place_{t} = Gather (place, at_{t})
  stored_{t} = {domain}.{lookup} <{attributes}> (place_{t}, tier_{t}_codes, tier_{t}_values)
  plain_{t} = Cast <to: int = 1> (stored_{t})
  num_scales_{t} = Size (tier_{t}_row_scales)
  is_scaled_{t} = Greater (num_scales_{t}, zero)
  rows_{t} = If (is_scaled_{t}) <
    then_branch = scale_{t} () => (scaled_{t}) {{
      scale_code_{t} = Gather (tier_{t}_row_scale_codes, place_{t})
      scale_place_{t} = Cast <to: int = 6> (scale_code_{t})
      scale_of_{t} = Gather (tier_{t}_row_scales, scale_place_{t})
      scale_column_{t} = Unsqueeze (scale_of_{t}, axis_1)
      scaled_{t} = Mul (plain_{t}, scale_column_{t})
    }},
    else_branch = keep_{t} () => (kept_{t}) {{
      kept_{t} = Identity (plain_{t})
    }}
  >
"""

_JOIN = """
  order = Concat <axis: int = 0> ({at})
  by_tier = Concat <axis: int = 0> ({rows})
  batch = Size (order)
  numbered = Range (zero, batch, one)
  inverse = ScatterElements <axis: int = 0> (order, order, numbered)
  by_id = Gather <axis: int = 0> (by_tier, inverse)
  padding_idx = Constant <value_int: int = @padding_idx> ()
  is_padding = Equal (id_column, padding_idx)
  no_value = Constant <value: tensor = float {{0.0}}> ()
  padded = Where (is_padding, no_value, by_id)
  ids_shape = Shape (ids)
  dim = Shape <start: int = 1, end: int = 2> (by_id)
  rows_shape = Concat <axis: int = 0> (ids_shape, dim)
  rows = Reshape <allowzero: int = 1> (padded, rows_shape)
"""


def _body(count: int) -> str:
    tiers = range(NUM_TIERS)
    places = _PLACES.format(
        sizes="\n".join(_SIZE.format(t=t) for t in tiers),
        size_names=", ".join(f"size_{t}" for t in tiers),
        block=BLOCK,
        per_byte=8 // BITS,
        divisors=", ".join(str(1 << shift) for shift in range(0, 8, BITS)),
        codes=1 << BITS,
        last_tier=NUM_TIERS - 1,
    )
    lookups = "".join(
        _TIER.format(t=t, domain=DOMAIN, lookup=DPQ.operator("rows").op_type, attributes=_plain_attributes(t))
        for t in tiers
    )
    names = {kind: ", ".join(f"{kind}_{t}" for t in tiers) for kind in ("at", "rows")}
    return places + lookups + _JOIN.format(**names)


def _plain_attributes(tier: int) -> str:
    given = {"format_version": "@format_version", **{name: f"@{name}_{tier}" for name in nodes.OF_TIER}}
    return ", ".join(f"{name}: int = {value}" for name, value in (given | {"padding_idx": "-1"}).items())


def _table(
    tier_map: Any,
    tier_ranks: Any,
    codes: Sequence[Any],
    values: Sequence[Any],
    row_scale_codes: Sequence[Any],
    row_scales: Sequence[Any],
    num_groups: Sequence[int],
    padding_idx: int | None,
) -> tuple[Sequence[Any], dict[str, int]]:
    every = list(zip(codes, values, row_scale_codes, row_scales, strict=True))
    sizes = [(bits_for(int(value.shape[1])), int(value.shape[1])) for value in values]
    tiers = [(*size, groups) for size, groups in zip(sizes, num_groups, strict=True)]
    named = {f"{name}_{t}": tier[at] for t, tier in enumerate(tiers) for at, name in enumerate(nodes.OF_TIER)}
    return [tier_map, tier_ranks, *(tensor for tier in every for tensor in tier)], {
        "format_version": FORMAT_VERSION,
        "num_embeddings": sum(int(each.shape[0]) for each in codes),
        **named,
        "padding_idx": -1 if padding_idx is None else padding_idx,
    }


TIERED = OnnxMethod(
    name=PackedTiered.method,
    node=nodes.TIERED,
    operators=tiered.TIERED,
    table=_table,
    body=_body,
    num_rows="\n  num_rows = Constant <value_int: int = @num_embeddings> ()\n",
    looks_up=(DPQ, 2),
)
METHODS = (TIERED,)
