// Codes of the map of tiers, 64 bits at a time.
#ifndef EDGE_EMBED_KERNELS_TIERED_MAP_H_
#define EDGE_EMBED_KERNELS_TIERED_MAP_H_

#include "kernels/tiered/tiered.h"

namespace edge_embed::tiered {
namespace {

constexpr size_t kWordBits = 64;

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

// Bits to flip, so that those of a code are ones if it equals `tier`.
__attribute__((always_inline)) inline uint64_t Flip(size_t tier, size_t bits) {
  return bits == 1 ? uint64_t{tier} - 1 : ~(tier * 0x5555555555555555);
}

// The lowest bit of each code of `bits` bits that equals `tier`.
__attribute__((always_inline)) inline uint64_t Equal(uint64_t word, size_t tier, size_t bits) {
  const uint64_t same = word ^ Flip(tier, bits);
  return bits == 1 ? same : same & same >> 1 & 0x5555555555555555;
}

// The tier of an id.
__attribute__((always_inline)) inline size_t TierOf(const unsigned char* map, size_t bits, size_t id) {
  return size_t{map[id * bits / 8]} >> (id * bits % 8) & ((size_t{1} << bits) - 1);
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_MAP_H_
