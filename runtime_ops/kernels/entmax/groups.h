// Groups of scores of a long row that have candidates, so that the others are read once.
//
// While the largest score is searched, the largest ones of the lanes of each group go to the memory of the
// result. They show which groups have candidates, as soon as the bound of tau is known. The rest of the
// result becomes 0 meanwhile, because memory is read and written side by side.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_

#include "kernels/entmax/compress.h"
#include "kernels/entmax/lanes.h"

namespace edge_embed::entmax {
namespace {

constexpr size_t kLongRow = 1 << 12;  // scores that fill the innermost cache with their result
constexpr size_t kGroupScores = kBest * kLanes;

// Parts of a row outside of which there is no candidate. Each has `size` scores, or what is left of the row.
struct Parts {
  static constexpr size_t kMost = 128;
  size_t count, size, begins[kMost];

  // Calls with the index and the number of scores of each part.
  template <class Function>
  void ForEach(size_t n, const Function& function) const {
    for (size_t part = 0; part < count; ++part) {
      const size_t begin = begins[part], rest = n - begin;
      function(begin, rest < size ? rest : size);
    }
  }
};

inline void TakeAll(size_t n, Parts* parts) {
  parts->count = 1;
  parts->size = n;
  parts->begins[0] = 0;
}

// Numbers at the front of the result [n] that are the largest scores of whole groups.
inline size_t FrontOf(size_t n) { return n / kGroupScores * kLanes; }

// As LargestOfLanes (lanes.h), but NaN gives NaN. Writes the front of `memory` [n], and 0 behind it.
inline size_t LargestOfGroups(const float* scores, size_t n, Floats (&best)[kBest], float* memory) {
  Lanes unordered{};
  float* zeros = memory + FrontOf(n);
  const size_t vectors = LargestOfLanes(scores, n, best, [&](size_t begin, const Floats(&group)[kBest]) {
    Floats largest = group[0];
    for (const Floats& part : group) {
      largest = part > largest ? part : largest;
      unordered |= NotBelow(part, kInfinity);
    }
    StoreFloats(largest, memory + begin / kBest);
    for (size_t v = 1; v < kBest; ++v, zeros += kLanes) StoreFloats(Floats{}, zeros);
  });
  Fill(zeros, n % kGroupScores, 0);
  if (AnyOf(unordered)) best[0] = Broadcast(kNaN);
  return vectors;
}

// Sets what is not 0 yet to 0: the front, and candidates, of which CopyAbove stores whole vectors.
inline void ClearFront(size_t n, size_t candidates, float* out) {
  const size_t front = FrontOf(n), end = candidates + kLanes > front ? candidates + kLanes : front;
  Fill(out, end < n ? end : n, 0);
}

// Finds the groups that CopyAbove takes numbers from, with what LargestOfGroups wrote to `memory`. The last
// one counts if it is not whole. More than kMost of them are the whole row. Most groups have no candidates,
// so several are compared at once.
inline void FindParts(const float* memory, size_t n, float offset, float limit, Parts* parts) {
  parts->count = 0;
  parts->size = kGroupScores;
  const size_t whole = n / kGroupScores, groups = (n + kGroupScores - 1) / kGroupScores;
  const auto above = [&](size_t group) {
    return NotBelow(LoadFloats(memory + group * kLanes) - offset, limit);
  };
  for (size_t begin = 0; begin < groups; begin += kGroup) {
    Lanes any{};
    for (size_t group = begin; group < begin + kGroup && group < whole; ++group) any |= above(group);
    if (begin + kGroup <= whole && !AnyOf(any)) continue;
    for (size_t group = begin; group < begin + kGroup && group < groups; ++group) {
      if (group < whole && !AnyOf(above(group))) continue;
      if (parts->count == Parts::kMost) return TakeAll(n, parts);
      parts->begins[parts->count++] = group * kGroupScores;
    }
  }
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_
