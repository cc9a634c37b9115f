// Tiers and places of ids without a branch on the tier: the map of a block is compared with the tier of a row
// 64 bits at a time, and the equal codes before the row are counted.
#ifndef EDGE_EMBED_KERNELS_TIERED_MAP_H_
#define EDGE_EMBED_KERNELS_TIERED_MAP_H_

#include "kernels/tiered/tiered.h"

namespace edge_embed::tiered {
namespace {

constexpr size_t kWordBits = 64;
constexpr size_t kMostWords = 2 * kBlockRows / kWordBits;  // of the map of a block

// Number of ones. Other processors have no instruction for it, and a freestanding library no function.
__attribute__((always_inline)) inline uint64_t Ones(uint64_t word) {
#if defined(__POPCNT__) || defined(__aarch64__)
  return static_cast<uint64_t>(__builtin_popcountll(word));
#else
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  return ((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56;
#endif
}

// The lowest bit of each code of `bits` bits that equals `tier`.
__attribute__((always_inline)) inline uint64_t Equal(uint64_t word, size_t tier, size_t bits) {
  if (bits == 1) return word ^ (uint64_t{tier} - 1);
  const uint64_t same = ~(word ^ tier * 0x5555555555555555);
  return same & same >> 1 & 0x5555555555555555;
}

// The tier of an id.
__attribute__((always_inline)) inline size_t TierOf(const unsigned char* map, size_t bits, size_t id) {
  return map[id * bits / 8] >> (id * bits % 8) & ((1U << bits) - 1);
}

// The map of a table with codes of kBits bits, or with 0 bits a table that has none.
template <size_t kBits>
class TierMap {
 public:
  static constexpr size_t kWords = kBlockRows * kBits / kWordBits;

  explicit TierMap(const Table& table)
      : map_(table.map), ranks_(table.ranks), tiers_(static_cast<size_t>(table.num_tiers)) {
    size_t start = 0;
    for (size_t t = 0; t < EE_MAX_TIERS; ++t) {
      rows_[t] = static_cast<size_t>(table.tiers[t].num_embeddings);
      starts_[t] = start;
      start += rows_[t];
    }
  }

  // The place of an id in range. Its row is at least rows() of its tier if the table lacks it.
  __attribute__((always_inline)) Place Of(size_t id) const {
    if constexpr (kBits == 0) {
      size_t tier = 0;
      for (size_t t = 1; t < EE_MAX_TIERS; ++t) tier += id >= starts_[t];
      return {tier, id - starts_[tier]};
    } else {
      const unsigned char* const block = map_ + id / kBlockRows * (kWords * sizeof(uint64_t));
      const size_t bit = id % kBlockRows * kBits, word = bit / kWordBits, shift = bit % kWordBits;
      const size_t tier = Load<uint64_t>(block, word) >> shift & ((1U << kBits) - 1);
      const uint64_t own = Equal(Load<uint64_t>(block, word), tier, kBits) & ((uint64_t{1} << shift) - 1);
      return {tier, Rank(id / kBlockRows, tier) + Ones(own) + WordsBefore(block, word, tier)};
    }
  }

  void Prefetch(size_t id) const {
    if constexpr (kBits > 0) {
      __builtin_prefetch(map_ + id / kBlockRows * (kWords * sizeof(uint64_t)));
      __builtin_prefetch(ranks_ + id / kBlockRows * tiers_ * sizeof(int32_t));
    }
  }

  size_t rows(size_t tier) const { return rows_[tier]; }

 private:
  // Rows of a tier in the first `count` words of a block.
  __attribute__((always_inline)) static uint64_t WordsBefore(const unsigned char* block, size_t count,
                                                             size_t tier) {
    alignas(64) static constexpr uint64_t kMasks[2 * kMostWords] = {~0ULL, ~0ULL, ~0ULL, ~0ULL,
                                                                    ~0ULL, ~0ULL, ~0ULL, ~0ULL};
    const uint64_t* const masks = kMasks + kMostWords - count;
    uint64_t rows = 0;
    for (size_t k = 0; k < kWords; k += kBits) {
      uint64_t equal = Equal(Load<uint64_t>(block, k), tier, kBits) & masks[k];
      if constexpr (kBits == 2) equal |= (Equal(Load<uint64_t>(block, k + 1), tier, kBits) & masks[k + 1]) << 1;
      rows += Ones(equal);
    }
    return rows;
  }

  // Rows of a tier before a block. It may be any number, and that of a tier that does not exist is not used.
  __attribute__((always_inline)) size_t Rank(size_t block, size_t tier) const {
    const size_t at = block * tiers_ + (tier < tiers_ ? tier : 0);
    return static_cast<size_t>(int64_t{Load<int32_t>(ranks_, at)});
  }

  const unsigned char* const map_;
  const unsigned char* const ranks_;
  const size_t tiers_;
  size_t rows_[EE_MAX_TIERS], starts_[EE_MAX_TIERS];
};

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_MAP_H_
