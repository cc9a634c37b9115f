#include "kernels/tiered/chunk.h"

namespace edge_embed::tiered {
namespace {

constexpr size_t kMadeBytes = 64 * 1024;  // rows stay in a cache until they are used

size_t IdsAtOnce(size_t columns) {
  const size_t rows = kMadeBytes / sizeof(float) / columns;
  return rows < kFewIds ? kFewIds : rows > kMostIds ? kMostIds : rows;
}

}  // namespace

Tiers::Tiers(const Table& table) {
  for (size_t t = 0; t < kTiers; ++t) tables[t] = table.tiers[t];
  Place place;
  if (table.padding_idx == kNoPadding || !FindPlace(table, static_cast<size_t>(table.padding_idx), &place))
    return;
  tables[place.tier].padding_idx = static_cast<int64_t>(place.row);
}

Chunk::Chunk(const TierKernels& kernels, const Table& table, const Ids& ids, double* scratch)
    : kernels_(kernels),
      table_(table),
      tiers_(table),
      ids_(ids),
      columns_(Columns(table)),
      scratch_(scratch),
      made_(reinterpret_cast<float*>(scratch + WriteDoubles(kernels, table).saturated())) {
  lists_.count = 0;
}

Size Chunk::WriteDoubles(const TierKernels& kernels, const Table& table) {
  return LargestOf(kernels, table,
                   [](const auto& inner, const auto& tier) { return inner.gather.scratch(tier); });
}

Size Chunk::MakeDoubles(const TierKernels& kernels, const Table& table) {
  const size_t columns = Columns(table);
  return WriteDoubles(kernels, table) + Size(IdsAtOnce(columns) / 2 + 1) * columns + kMostLanes / 2;
}

size_t Chunk::MostIds() const { return IdsAtOnce(columns_); }

void Chunk::Make(size_t begin, size_t end) {
  Find(begin, end, MostIds());
  float* to = made_;
  for (size_t t = 0; t < kTiers; ++t) {
    const size_t count = Run(t, {to, EE_FLOAT32});
    for (size_t k = 0; k < count; ++k, to += columns_) rows_[lists_.positions[t][k]] = to;
  }
}

void Chunk::Write(size_t begin, size_t end, float* rows) {
  Find(begin, end, kMostIds);
  for (size_t t = 0; t < kTiers; ++t) Run(t, {rows, EE_FLOAT32, lists_.positions[t]});
}

void Chunk::Find(size_t begin, size_t end, size_t most) {
  kernels_.loops->find(table_, ids_, begin, end - begin < most ? end : begin + most, &lists_);
  for (size_t t = 0; t < kTiers; ++t) CheckScales(t);
}

// Ends the chunk before the first row with a damaged scale code.
void Chunk::CheckScales(size_t t) {
  const dpq_scaled::Table& tier = tiers_.tables[t];
  for (size_t k = 0; tier.has_scales() && k < lists_.counts.Of(t); ++k) {
    const size_t row = lists_.rows[t][k], position = lists_.positions[t][k];
    const bool is_sound = tier.row_scale_codes[row] < tier.num_row_scales;
    if (is_sound || position >= lists_.count || static_cast<int64_t>(row) == tier.padding_idx) continue;
    lists_.count = position;
    lists_.status = EE_BAD_ROW_SCALE_CODE;
  }
}

// Makes the rows of a tier, and returns their number.
size_t Chunk::Run(size_t t, const Output& rows) {
  size_t count = lists_.counts.Of(t), bad;
  while (count > 0 && lists_.positions[t][count - 1] >= lists_.count) --count;
  const Ids ids{lists_.rows[t], EE_INT64, count};
  if (count == 0) return 0;
  WithTier(kernels_, tiers_.tables[t], [&](const auto& inner, const auto& tier) {
    return inner.gather.run(tier, ids, 0, count, rows, scratch_, &bad);
  });
  return count;
}

}  // namespace edge_embed::tiered
