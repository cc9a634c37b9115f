// Sums and maxima of rows that were made.
//
// Rounding is that of dpq/fast_bag.h: up to seven rows are added in registers, and these sums are added
// together with their rounding errors.
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_BAG_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/tiered/loops.h"

namespace edge_embed::tiered {
namespace {

inline void AddRows(const BagPart& part) {
  constexpr size_t kVectors = kMostLanes / kLanes;
  for (size_t k = 0; k < part.columns; k += kMostLanes) {
    bool first = part.first;
    for (size_t begin = 0; begin < part.count || first; begin += dpq::kTerms) {
      const size_t left = part.count - begin, end = begin + (left < dpq::kTerms ? left : dpq::kTerms);
      Floats sums[kVectors] = {};
      for (size_t i = begin; i < end; ++i) {
        for (size_t v = 0; v < kVectors; ++v) {
          sums[v] += part.weights[i] * LoadFloats(part.rows[i] + k + v * kLanes);
        }
      }
      for (size_t v = 0; v < kVectors; ++v) dpq::Fold(sums[v], first, {part.high, part.low}, k + v * kLanes);
      first = false;
    }
  }
}

// As in numpy, NaN stays.
inline void KeepLargest(const BagPart& part) {
  for (size_t k = 0; k < part.columns; k += kLanes) {
    Floats largest{};
    if (!part.first || part.count > 0) largest = LoadFloats((part.first ? part.rows[0] : part.high) + k);
    for (size_t i = 0; i < part.count; ++i) {
      const Floats value = LoadFloats(part.rows[i] + k), larger = value <= largest ? largest : value;
      largest = largest == largest ? larger : largest;
    }
    StoreFloats(largest, part.high + k);
    StoreFloats(Floats{}, part.low + k);
  }
}

inline void WriteBag(const BagPart& part, float divisor, const Output& out, size_t at) {
  dpq::WriteTotals({part.high, part.low}, divisor, part.columns, out, at);
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_BAG_H_
