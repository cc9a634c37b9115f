// A candidate for the largest logits is one integer. The high bits order like the logit, and the low bits are
// the complement of its row. One comparison then orders by logit, and equal logits by lowest row.
#ifndef EDGE_EMBED_KERNELS_CANDIDATE_H_
#define EDGE_EMBED_KERNELS_CANDIDATE_H_

#include <stddef.h>

#include "kernels/half.h"

namespace edge_embed {

using Candidate = uint64_t;

constexpr Candidate kNone = 0;  // below every candidate: rows are below 2^32 - 1

// NaN orders above infinity, and a negative zero counts as zero.
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

// The largest logits of one state so far, shared by all threads.
struct Best {
  Candidate* heap;  // a heap [k] with the smallest candidate first; initially all kNone
  size_t k;
  Candidate* lock;  // 1 while a thread changes the heap

  // Inserts those of `logits` [count], for the rows from `first` on, that are larger than the smallest
  // candidate.
  void Offer(const float* logits, size_t count, size_t first) const;

  // Logits up to this value are not among the k largest. It is below the smallest candidate, because an equal
  // logit may have a lower row. With fewer than k candidates it is NaN, which no logit compares with.
  float Threshold() const {
    const Candidate least = __atomic_load_n(heap, __ATOMIC_RELAXED);
    if (least == kNone) return FloatOfBits(0x7FC00000);
    return LogitOf(least - (uint64_t{least >> 32 == 0x80000000 ? 2U : 1U} << 32));
  }
};

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_CANDIDATE_H_
