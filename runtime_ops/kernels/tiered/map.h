// Codes of the map of tiers, a word of 32 codes at a time.
#ifndef EDGE_EMBED_KERNELS_TIERED_MAP_H_
#define EDGE_EMBED_KERNELS_TIERED_MAP_H_

#include "kernels/tiered/tiered.h"

namespace edge_embed::tiered {
namespace {

constexpr size_t kCodeBits = 2, kWordBits = 64;
constexpr size_t kWords = kBlockBytes / sizeof(uint64_t);
constexpr uint64_t kLowBits = 0x5555555555555555;  // the lower one of each code

// Bits to flip, so that those of a code are ones if it equals `tier`.
__attribute__((always_inline)) inline uint64_t Flip(size_t tier) { return ~(tier * kLowBits); }

// The lower bit of each code that equals `tier`.
__attribute__((always_inline)) inline uint64_t Equal(uint64_t word, size_t tier) {
  const uint64_t same = word ^ Flip(tier);
  return same & same >> 1 & kLowBits;
}

// Number of ones. Other processors have no instruction for it, and a freestanding library no function.
__attribute__((always_inline)) inline uint64_t Ones(uint64_t word) {
#if defined(__POPCNT__) || defined(__aarch64__)
  return static_cast<uint64_t>(__builtin_popcountll(word));
#else
  word -= word >> 1 & kLowBits;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  return ((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56;
#endif
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_MAP_H_
