#include "c_api/tables.h"

namespace edge_embed::c_api {
namespace {

// A number that is not an ee_type becomes one that Validate refuses.
ee_type ToType(int32_t type) {
  return type >= EE_FLOAT32 && type <= EE_INT64 ? static_cast<ee_type>(type) : EE_INT64;
}

const unsigned char* ToBytes(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

dpq::Table ToTable(const ee_dpq_table& c) {
  dpq::Table table{};
  table.codes = c.codes;
  table.codes_bytes = c.codes_bytes;
  table.values = ToBytes(c.values);
  table.values_bytes = c.values_bytes;
  table.value_scales = ToBytes(c.value_scales);
  table.value_scales_bytes = c.value_scales_bytes;
  table.blocks =
      c.blocks_bytes == 0 ? nullptr : ToBytes(c.blocks);  // some allocators return an address for zero bytes
  table.blocks_bytes = c.blocks_bytes;
  table.num_embeddings = c.num_embeddings;
  table.num_codes = c.num_codes;
  table.num_groups = c.num_groups;
  table.group_width = c.group_width;
  table.padding_idx = c.padding_idx;
  table.value_type = ToType(c.value_type);
  table.bits = c.bits;
  table.shared = c.shared != 0;
  return table;
}

dpq_scaled::Table ToTable(const ee_dpq_scaled_table& c) {
  dpq_scaled::Table table{};
  static_cast<dpq::Table&>(table) = ToTable(c.plain);
  table.row_scale_codes = c.row_scale_codes;
  table.row_scale_codes_bytes = c.row_scale_codes_bytes;
  table.row_scales = ToBytes(c.row_scales);
  table.row_scales_bytes = c.row_scales_bytes;
  table.num_row_scales = c.num_row_scales;
  table.unused_columns = c.unused_columns;
  return table;
}

tiered::Table ToTable(const ee_tiered_table& c) {
  tiered::Table table{};
  const auto* const tiers = ToBytes(c.tiers);
  for (size_t t = 0; t < EE_NUM_TIERS && tiers != nullptr; ++t) {
    ee_dpq_scaled_table tier{};
    if (c.tiers_bytes >= sizeof(tier) * EE_NUM_TIERS)
      __builtin_memcpy(&tier, tiers + t * sizeof(tier), sizeof(tier));
    table.tiers[t] = ToTable(tier);
  }
  table.map = c.tier_map_bytes == 0 ? nullptr : c.tier_map;
  table.map_bytes = c.tier_map_bytes;
  table.ranks = ToBytes(c.tier_ranks);
  table.ranks_bytes = c.tier_ranks_bytes;
  table.num_embeddings = c.num_embeddings;
  table.padding_idx = c.padding_idx;
  return table;
}

ant::Table ToTable(const ee_ant_table& c) {
  ant::Table table{};
  table.row_offsets = ToBytes(c.row_offsets);
  table.row_offsets_bytes = c.row_offsets_bytes;
  table.anchor_ids = ToBytes(c.anchor_ids);
  table.anchor_ids_bytes = c.anchor_ids_bytes;
  table.weights = ToBytes(c.weights);
  table.weights_bytes = c.weights_bytes;
  table.anchors = ToBytes(c.anchors);
  table.anchors_bytes = c.anchors_bytes;
  table.num_embeddings = c.num_embeddings;
  table.num_weights = c.num_weights;
  table.num_anchors = c.num_anchors;
  table.embedding_dim = c.embedding_dim;
  table.padding_idx = c.padding_idx;
  table.anchor_id_type = ToType(c.anchor_id_type);
  table.weight_type = ToType(c.weight_type);
  table.anchor_type = ToType(c.anchor_type);
  table.weight_scale = c.weight_scale;
  return table;
}

tt::Table ToTable(const ee_tt_table& c) {
  tt::Table table{};
  for (size_t k = 0; k < EE_MAX_CORES; ++k) {
    const ee_tt_core& core = c.cores[k];
    table.cores[k] = {ToBytes(core.data), core.bytes, core.rows, core.rank_in, core.columns, core.rank_out};
  }
  table.num_cores = c.num_cores;
  table.num_embeddings = c.num_embeddings;
  table.padding_idx = c.padding_idx;
  table.core_type = ToType(c.core_type);
  return table;
}

ee_tt_table ToC(const tt::Table& table) {
  ee_tt_table c{};
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const tt::Core& core = table.cores[k];
    c.cores[k] = {core.data, core.bytes, core.rows, core.rank_in, core.columns, core.rank_out};
  }
  c.num_cores = table.num_cores;
  c.num_embeddings = table.num_embeddings;
  c.padding_idx = table.padding_idx;
  c.core_type = table.core_type;
  return c;
}

}  // namespace edge_embed::c_api
