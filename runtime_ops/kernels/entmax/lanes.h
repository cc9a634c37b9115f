// Largest scores of the lanes of a row, and a bound of its tau from them.
//
// They are scores of the row too, among them the largest one, so their tau is at most that of the row.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_LANES_H_
#define EDGE_EMBED_KERNELS_ENTMAX_LANES_H_

#include "kernels/entmax/solve.h"

namespace edge_embed::entmax {
namespace {

constexpr float kMostAlpha = 4;
// Vectors of largest scores: more of them give a better bound, for more work.
constexpr size_t kBest = kLanes == 16 ? 4 : 8;

inline float LargestOf(const Floats* best, size_t vectors) {
  Floats all = best[0];
  for (size_t v = 1; v < vectors; ++v) all = best[v] > all ? best[v] : all;
  return Largest(all);
}

inline void Take(Floats part, Floats* largest) { *largest = part > *largest ? part : *largest; }

// The last n scores of a row, fewer than kBest vectors. Out of line: the library has a limit of bytes.
__attribute__((noinline)) inline void TakeRest(const float* scores, size_t n, Floats* best) {
  for (size_t i = 0; i < n; i += kLanes) {
    Take(LoadPart(scores + i, n - i < kLanes ? n - i : kLanes, -kInfinity), best++);
  }
}

// Writes the largest score of every lane, and returns how many vectors have any; NaN counts as no score.
// Calls with the index and the vectors of each whole group of kBest vectors.
template <class Function>
inline size_t LargestOfLanes(const float* scores, size_t n, Floats (&best)[kBest], const Function& function) {
  for (Floats& each : best) each = Broadcast(-kInfinity);
  size_t i = 0;
  for (; i + kBest * kLanes <= n; i += kBest * kLanes) {
    Floats parts[kBest];
    for (size_t v = 0; v < kBest; ++v) Take(parts[v] = LoadFloats(scores + i + v * kLanes), &best[v]);
    function(i, parts);
  }
  TakeRest(scores + i, n - i, best);
  return i > 0 ? kBest : (n + kLanes - 1) / kLanes;
}
__attribute__((noinline)) inline size_t LargestOfLanes(const float* scores, size_t n, Floats (&best)[kBest]) {
  return LargestOfLanes(scores, n, best, [](size_t, const Floats(&)[kBest]) {});
}

inline float Largest(const float* scores, size_t n) {
  Floats best[kBest];
  const size_t vectors = LargestOfLanes(scores, n, best);
  return LargestOf(best, vectors);
}

// A step of Newton for the scores `best`, for (alpha - 1) = kHalves / 2. g is convex (solve.h), so the step
// ends below their tau from both sides. It begins near tau of rows of normal scores.
template <int kHalves>
inline float Approach(const Floats* best, size_t vectors, float largest) {
  constexpr float kFactor = 0.5F * kHalves, kBegin = -0.6F;
  Floats sums{}, lower{};  // sums of (x - tau)^e and (x - tau)^(e - 1) over x > tau, e = 1 / factor
  for (size_t v = 0; v < vectors; ++v) {
    const Floats above = (best[v] - largest) * kFactor - kBegin;
    const Integers is_above = above > Floats{};
    const Floats positive = is_above ? above : Floats{};
    sums += kHalves == 2 ? positive : positive * positive;
    lower += kHalves == 2 ? WhereFloats(is_above, Broadcast(1)) : positive;
  }
  const float sum = Sum(sums), norm = kHalves == 2 ? sum : __builtin_sqrtf(sum);
  return kBegin + (norm - 1) * sum / (norm * Sum(lower));
}

// Two steps for a free alpha, as mu = -(1 + tau) / (alpha - 1), which falls from 0.
inline double ApproachByPowers(const Floats* best, size_t vectors, float largest, double factor) {
  double mu = 0;
  for (int step = 0; step < 2; ++step) {
    const ExpC exp_c(factor, mu);
    Floats sums{}, slopes{};
    for (size_t v = 0; v < vectors; ++v) {
      const Deformed p = exp_c(best[v] - largest);
      sums += p.value;
      slopes += p.slope;
    }
    const double sum = double{Sum(sums)};
    mu -= Step(sum, double{Sum(slopes)}, factor).less;
  }
  return mu;
}

// A number below tau of a row whose largest score is finite, from those of its lanes. For alpha > 2, that of
// alpha = 2 is a bound, as tau / (alpha - 1) grows with alpha: where d = z - max z - tau / c, the sum of
// (c d)^(1 / c) grows with c, as c d <= 1.
__attribute__((noinline)) inline double LeastTau(const Floats* best, size_t vectors, float largest,
                                                 float alpha) {
  if (!(alpha > 1 && alpha <= kMostAlpha)) return -1;
  const double factor = double{alpha} - 1;
  double tau;
  if (alpha >= 2) {
    tau = factor * double{Approach<2>(best, vectors, largest)};
  } else if (alpha == 1.5F) {
    tau = factor * 2 * double{Approach<1>(best, vectors, largest)};
  } else {
    tau = -1 - factor * ApproachByPowers(best, vectors, largest, factor);
  }
  const double least = tau - 1e-5 * (factor < 1 ? factor : 1);  // rounding
  return least > -1 ? least : -1;
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_LANES_H_
