// Groups of scores of a long row that have candidates, so that the others are read once.
//
// While the largest score is searched, the largest ones of the lanes of each group go to the memory of the
// result. They show which groups have candidates, as soon as the bound of tau is known.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_

#include "kernels/entmax/compress.h"
#include "kernels/entmax/lanes.h"

namespace edge_embed::entmax {
namespace {

constexpr size_t kLongRow = 1 << 13;  // scores that the innermost cache does not hold
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

// As LargestOfLanes (lanes.h), but NaN gives NaN. The largest scores of whole groups go to the front of
// `memory` [n].
inline size_t LargestOfGroups(const float* scores, size_t n, Floats (&best)[kBest], float* memory) {
  Lanes unordered{};
  const size_t vectors = LargestOfLanes(scores, n, best, [&](size_t begin, const Floats(&group)[kBest]) {
    Floats largest = group[0];
    for (const Floats& part : group) {
      largest = part > largest ? part : largest;
      unordered |= NotBelow(part, kInfinity);
    }
    StoreFloats(largest, memory + begin / kBest);
  });
  if (AnyOf(unordered)) best[0] = Broadcast(kNaN);
  return vectors;
}

// Finds the groups that CopyAbove takes numbers from, with what LargestOfGroups wrote to `memory`. The last
// one counts if it is not whole. More than kMost of them are the whole row.
inline void FindParts(const float* memory, size_t n, float offset, float limit, Parts* parts) {
  parts->count = 0;
  parts->size = kGroupScores;
  for (size_t i = 0; i < n; i += kGroupScores) {
    const bool is_whole = n - i >= kGroupScores;
    if (is_whole && !AnyOf(NotBelow(LoadFloats(memory + i / kBest) - offset, limit))) continue;
    if (parts->count == Parts::kMost) return TakeAll(n, parts);
    parts->begins[parts->count++] = i;
  }
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_GROUPS_H_
