// The reference kernels: the tier and the place of a row, counted code by code, then the row of the tier.
#include "kernels/reference.h"

#include "kernels/tiered/tiered.h"

namespace edge_embed::tiered {
namespace {

bool FindSorted(const Table& table, size_t id, Place* place) {
  *place = {0, id};
  for (; place->row >= static_cast<size_t>(table.tiers[place->tier].num_embeddings); ++place->tier) {
    place->row -= static_cast<size_t>(table.tiers[place->tier].num_embeddings);
  }
  return true;
}

}  // namespace

bool FindPlace(const Table& table, size_t id, Place* place) {
  if (table.map == nullptr) return FindSorted(table, id, place);
  const size_t block = id / kBlockRows, tier = TierOf(table.map, id);
  if (tier >= kTiers) return false;
  int64_t row = Load<int32_t>(table.ranks, block * kTiers + tier);
  for (size_t before = block * kBlockRows; before < id; ++before) row += TierOf(table.map, before) == tier;
  *place = {tier, static_cast<size_t>(row)};
  return row >= 0 && row < table.tiers[tier].num_embeddings;
}

size_t Columns(const Table& table) { return dpq_scaled::Columns(table.tiers[0]); }

uint64_t RowWork(const Table& table) { return Columns(table); }

uint64_t LogitsWork(const Table& table) {
  uint64_t work = 0;
  for (const dpq_scaled::Table& tier : table.tiers) {
    const uint64_t one = dpq_scaled::LogitsWork(tier);
    work = one > work ? one : work;
  }
  return work;
}

Size RowScratch(const Table& table) {
  Size doubles = 0;
  for (const dpq_scaled::Table& tier : table.tiers) doubles = Max(doubles, dpq_scaled::RowScratch(tier));
  return doubles;
}

ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch) {
  Place place;
  if (!FindPlace(table, id, &place)) return EE_BAD_TIER_PLACE;
  return dpq_scaled::ReadRow(table.tiers[place.tier], place.row, row, scratch);
}

}  // namespace edge_embed::tiered

namespace edge_embed {

template Size ScratchDoubles(const tiered::Table&);
template ee_status GatherReference(const tiered::Table&, const Ids&, size_t, size_t, const Output&, double*,
                                   size_t*);
template ee_status BagReference(const tiered::Table&, const Ids&, const Bags&, size_t, size_t, const Output&,
                                double*, size_t*);
template ee_status LogitsReference(const tiered::Table&, const LogitsInput&, size_t, size_t,
                                   const LogitsOutput&, double*, size_t*);

}  // namespace edge_embed
