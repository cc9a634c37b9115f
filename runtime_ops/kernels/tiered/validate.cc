#include "kernels/tiered/tiered.h"

namespace edge_embed::tiered {
namespace {

ee_status ValidateTiers(const Table& table) {
  int64_t rows = 0;
  for (const dpq_scaled::Table& tier : table.tiers) {
    const ee_status status = dpq_scaled::Validate(tier);
    if (status != EE_OK) return status;
    if (dpq_scaled::Columns(tier) != Columns(table) || tier.padding_idx != kNoPadding) return EE_BAD_TIERS;
    if (tier.num_embeddings > INT32_MAX) return EE_BAD_TIERS;
    rows += tier.num_embeddings;
  }
  return rows == table.num_embeddings && rows <= INT32_MAX ? EE_OK : EE_BAD_TIERS;
}

ee_status ValidateMap(const Table& table) {
  if (table.map == nullptr) return EE_OK;
  if (table.ranks == nullptr) return EE_NULL_POINTER;
  const uint64_t blocks = (static_cast<uint64_t>(table.num_embeddings) + kBlockRows - 1) / kBlockRows;
  if (table.map_bytes < blocks * kBlockBytes) return EE_SHORT_TIER_MAP;
  return table.ranks_bytes < blocks * kTiers * sizeof(int32_t) ? EE_SHORT_TIER_RANKS : EE_OK;
}

ee_status ValidatePadding(const Table& table) {
  if (table.padding_idx < kNoPadding || table.padding_idx >= table.num_embeddings) return EE_BAD_PADDING;
  Place place;
  if (table.padding_idx == kNoPadding) return EE_OK;
  return FindPlace(table, static_cast<size_t>(table.padding_idx), &place) ? EE_OK : EE_BAD_PADDING;
}

}  // namespace

ee_status Validate(const Table& table) {
  ee_status status = ValidateTiers(table);
  if (status == EE_OK) status = ValidateMap(table);
  return status == EE_OK ? ValidatePadding(table) : status;
}

}  // namespace edge_embed::tiered
