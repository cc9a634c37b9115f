// Rows of some ids: the ids are sorted by tier, and the kernel of each tier makes its rows, one after
// another.
#ifndef EDGE_EMBED_KERNELS_TIERED_CHUNK_H_
#define EDGE_EMBED_KERNELS_TIERED_CHUNK_H_

#include "kernels/tiered/loops.h"

namespace edge_embed::tiered {

// Calls use(kernels, table) for a tier. Those with row scales decode rows of integers, too.
template <class Use>
auto WithTier(const TierKernels& kernels, const dpq_scaled::Table& tier, const Use& use) {
  const bool is_plain =
      !tier.has_scales() && tier.unused_columns == 0 && (!tier.shared || tier.group_width > 1);
  return is_plain ? use(*kernels.plain, tier.plain()) : use(*kernels.scaled, tier);
}

// The largest of some(kernels, tier) of all tiers.
template <class Some>
Size LargestOf(const TierKernels& kernels, const Table& table, const Some& some) {
  Size largest = 0;
  for (const dpq_scaled::Table& tier : table.tiers) largest = Max(largest, WithTier(kernels, tier, some));
  return largest;
}

// The tiers of a table, of which one has the padding row.
struct Tiers {
  explicit Tiers(const Table& table);

  dpq_scaled::Table tables[kTiers];
};

class Chunk {
 public:
  // `scratch` has MakeDoubles, or WriteDoubles without Make.
  Chunk(const TierKernels& kernels, const Table& table, const Ids& ids, double* scratch);

  static Size WriteDoubles(const TierKernels& kernels, const Table& table);
  static Size MakeDoubles(const TierKernels& kernels, const Table& table);

  // Makes the rows of the ids from `begin` on, up to `end`, to the first error or to MostIds.
  void Make(size_t begin, size_t end);
  size_t MostIds() const;  // kFewIds .. kMostIds

  // Writes the rows of the ids from `begin` on to `rows`, up to `end`, to the first error or to kMostIds.
  void Write(size_t begin, size_t end, float* rows);

  size_t count() const { return lists_.count; }
  ee_status status() const { return lists_.status; }
  // Rows of these ids; kMostLanes numbers can be read after each.
  const float* const* rows() const { return rows_; }

 private:
  void Find(size_t begin, size_t end, size_t most);
  void CheckScales(size_t t);
  size_t Run(size_t t, const Output& rows);

  const TierKernels& kernels_;
  const Table& table_;
  const Tiers tiers_;
  const Ids& ids_;
  const size_t columns_;
  double* const scratch_;
  float* const made_;
  Lists lists_;
  const float* rows_[kMostIds];
};

constexpr size_t kFewIds = 64;

}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_CHUNK_H_
