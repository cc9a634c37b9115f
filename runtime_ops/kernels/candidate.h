// A candidate for the largest logits is one number: the bits of its logit, in the order of the numbers, above
// the complement of its row. One comparison then orders by logit, and equal ones by lowest row.
#ifndef EDGE_EMBED_KERNELS_CANDIDATE_H_
#define EDGE_EMBED_KERNELS_CANDIDATE_H_

#include <stddef.h>

#include "kernels/half.h"

namespace edge_embed {

using Candidate = uint64_t;

constexpr Candidate kNone = 0;  // less than any: rows are below 2^32 - 1

// What is not a number is above infinity, and a negative zero is a zero.
__attribute__((always_inline)) inline Candidate MakeCandidate(float logit, size_t row) {
  const uint32_t bits = logit == logit ? BitsOfFloat(logit + 0.0F) : 0x7FC00000;
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
  return uint64_t{ordered} << 32 | (0xFFFFFFFF - static_cast<uint32_t>(row));
}

__attribute__((always_inline)) inline float LogitOf(Candidate candidate) {
  const uint32_t ordered = static_cast<uint32_t>(candidate >> 32);
  return FloatOfBits((ordered >> 31) != 0 ? ordered & 0x7FFFFFFF : ~ordered);
}

__attribute__((always_inline)) inline int64_t RowOf(Candidate candidate) {
  return int64_t{0xFFFFFFFF} - static_cast<int64_t>(candidate & 0xFFFFFFFF);
}

// The best of one state so far, which all threads share.
struct Best {
  Candidate* heap;  // [k], the least of them first, all kNone at first
  size_t k;
  Candidate* lock;  // 0 while nobody changes the heap

  // Those of `logits` [count], of the rows from `first` on, that are more than the least take its place.
  void Offer(const float* logits, size_t count, size_t first) const;

  // No logit up to that is among the best: what equals the least of them may be of a lower row. While there
  // are fewer than k, what nothing compares with.
  float Threshold() const {
    const Candidate least = __atomic_load_n(heap, __ATOMIC_RELAXED);
    if (least == kNone) return FloatOfBits(0x7FC00000);
    return LogitOf(least - (uint64_t{least >> 32 == 0x80000000 ? 2U : 1U} << 32));
  }
};

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_CANDIDATE_H_
