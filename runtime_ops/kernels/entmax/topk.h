// Sparsemax over the k largest scores of a row, for the instruction set that a file is compiled for.
//
// If sparsemax of all scores has at most k probabilities above 0, it is the result. Otherwise each of the k
// largest scores has one, so with their sum,
//
//     p_i = max(0, z_i - max z - tau) if z_i is one of them, else 0        tau = (sum - 1) / k
//
// The k-th largest score is found bit by bit: floats have the order of integers, apart from the sign.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_TOPK_H_
#define EDGE_EMBED_KERNELS_ENTMAX_TOPK_H_

#include "kernels/entmax/fast.h"

namespace edge_embed::entmax {
namespace {

// The largest number that at least k of the candidates, which are at most 0, reach. 1 <= k <= count.
inline float Reached(const float* candidates, size_t count, size_t k) {
  uint32_t magnitude = 0;  // the smallest one, whose bits count as an integer
  for (uint32_t bit = 1U << 30; bit != 0; bit >>= 1) {
    const float least = -FloatOfBits(magnitude + bit - 1);
    if (least != least) continue;  // beyond infinity
    size_t reaching = 0;
    for (size_t i = 0; i < count; ++i) reaching += candidates[i] >= least;
    if (reaching < k) magnitude += bit;
  }
  return -FloatOfBits(magnitude);
}

// Sets all but the k largest scores to 0, in place: `out` holds sparsemax with more than k probabilities.
inline void KeepLargest(const float* scores, size_t n, float largest, size_t k, float* out) {
  const size_t count = CopyAbove(scores, n, largest, -1, out);
  const float least = Reached(out, count, k);
  size_t above = 0;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (out[i] > least) sum += double{out[i]}, ++above;
  }
  size_t equal = k - above;  // of those, the first ones count
  const auto low =
      static_cast<float>((sum + static_cast<double>(equal) * double{least} - 1) / static_cast<double>(k));
  for (size_t i = 0; i < n; ++i) {
    const float difference = scores[i] - largest;
    bool is_in = difference > least;
    if (difference == least && equal > 0) is_in = true, --equal;
    const float kept = difference - low;
    out[i] = is_in && kept > 0 ? kept : 0;
  }
}

inline void TopKRow(const float* scores, size_t n, size_t k, float* out) {
  ForwardRow(scores, n, 2, out);
  if (n == 0 || out[0] != out[0]) return;
  size_t used = 0;
  for (size_t i = 0; i < n; ++i) used += out[i] > 0;
  if (used > k) KeepLargest(scores, n, Largest(scores, n), k, out);
}

inline void TopK(const ee_score_rows* of, size_t k, size_t begin, size_t end, float* out) {
  for (size_t row = begin; row < end; ++row) {
    TopKRow(of->scores + row * of->n, of->n, k, out + row * of->n);
  }
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_TOPK_H_
