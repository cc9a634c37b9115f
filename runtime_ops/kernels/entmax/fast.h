// Kernels of kernels/entmax/entmax.h for the instruction set that a file is compiled for.
//
// The largest scores of the lanes give a bound of tau (lanes.h), which few scores of a long row reach. These
// candidates are copied to the memory of the result (compress.h), where tau is found (solve.h). Probabilities
// that take powers are computed from candidates, and moved to their places. Those of long rows that take none
// are computed in the groups of scores with candidates (groups.h).
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_FAST_H_
#define EDGE_EMBED_KERNELS_ENTMAX_FAST_H_

#include "kernels/entmax/entmax.h"
#include "kernels/entmax/groups.h"

namespace edge_embed::entmax {
namespace {

// For all vectors of scores: calls with the index, the number of elements, x - tau, and a mask of those above
// 0. Elements of x - tau that are not above 0 are 1.
template <class Function>
inline void ForEachAbove(const float* scores, size_t n, float largest, double factor, double tau,
                         const Function& function) {
  ForEach<kDoubles>(n, [&](size_t i, size_t count) {
    const Doubles above = (LoadPartDoubles(scores + i, count, -kInfinity) - double{largest}) * factor - tau;
    const Longs mask = (Longs)(above > Doubles{});
    function(i, count, Select(mask, above, Doubles{} + 1), mask);
  });
}

inline bool HasNaN(const float* scores, size_t n) {
  Integers unordered{};
  ForEach<kLanes>(n, [&](size_t i, size_t count) {
    const Floats part = LoadPart(scores + i, count, 0);
    unordered |= part != part;
  });
  return Any(unordered);
}

// Scores with a positive probability are above this limit, if tau of the row is at least `tau`.
inline float LimitOf(float largest, float alpha, double tau) {
  if (!(alpha > 1 && alpha <= kMostAlpha)) return -kInfinity;
  const double factor = double{alpha} - 1, magnitude = largest < 0 ? -double{largest} : double{largest};
  return static_cast<float>(double{largest} + tau / factor - 1e-6 * (magnitude + 1 / factor));  // rounding
}

// For e < 1, where the sum of (x - tau)^e falls to 1. With scores themselves: differences are rounded, and
// the power would multiply that. `memory` [n] is overwritten.
inline double SolveByBisection(const float* scores, size_t n, float largest, float alpha, double low,
                               float* memory) {
  constexpr int kSteps = 54;  // to the precision of double
  const double factor = double{alpha} - 1;
  const float limit = LimitOf(largest, alpha, low);
  size_t candidates = 0;
  for (size_t i = 0; i < n; ++i) {  // little beside the powers, and in the library
    memory[candidates] = scores[i];
    candidates += !(scores[i] <= limit);
  }
  double high = 0;
  for (int step = 0; step < kSteps; ++step) {
    const double middle = (low + high) / 2;
    Doubles powers{};
    ForEachAbove(memory, candidates, largest, factor, middle, [&](size_t, size_t, Doubles above, Longs mask) {
      if (Any(mask)) powers += Where(mask, Power(above, 1 / factor));
    });
    (Sum(powers) < 1 ? high : low) = middle;
  }
  return low;
}

inline void Softmax(const float* scores, size_t n, float largest, float* out) {
  Doubles sums{};
  ForEach<kLanes>(n, [&](size_t i, size_t count) {
    const Floats power = Exp(LoadPart(scores + i, count, -kInfinity) - largest);
    sums += Pairs(power);
    StorePart(power, out + i, count);
  });
  const auto share = static_cast<float>(1 / Sum(sums));
  ForEach<kLanes>(
      n, [&](size_t i, size_t count) { StorePart(LoadPart(out + i, count, 0) * share, out + i, count); });
}

// alpha = 2 and 1.5, whose probabilities take no powers. Out of line: the library has a limit of bytes.
__attribute__((noinline)) inline void WriteExact(const float* scores, size_t n, float largest, float alpha,
                                                 float tau, float* out) {
  ForEach<kLanes>(n, [&](size_t i, size_t count) {
    const Floats difference = LoadPart(scores + i, count, -kInfinity) - largest;
    const Floats above = (alpha == 2 ? difference : 0.5F * difference) - tau;
    const Floats positive = above > Floats{} ? above : Floats{};
    StorePart(alpha == 2 ? positive : positive * positive, out + i, count);
  });
}

// alpha > 2. Out of line, as above.
__attribute__((noinline)) inline void ByBisection(const float* scores, size_t n, float largest, float alpha,
                                                  double least_tau, float* out) {
  const double factor = double{alpha} - 1, exponent = 1 / factor;
  const double tau = SolveByBisection(scores, n, largest, alpha, least_tau, out);
  ForEachAbove(scores, n, largest, factor, tau, [&](size_t i, size_t count, Doubles above, Longs mask) {
    StorePart(Any(mask) ? Where(mask, Power(above, exponent)) : Doubles{}, out + i, count);
  });
}

// Out of line, as above.
__attribute__((noinline)) inline double SolveExact(const float* differences, size_t n, float alpha,
                                                   double tau) {
  return alpha == 2 ? SolveSparsemax(differences, n, tau) : SolveEntmax15(differences, n, tau);
}

inline bool IsExact(float alpha) { return alpha == 2 || alpha == 1.5F; }

// Candidates are above this limit, as differences from the largest score.
inline float LimitOfDifferences(float alpha, double least_tau) {
  return static_cast<float>(least_tau / (double{alpha} - 1));
}

// Out of line, as above.
__attribute__((noinline)) inline void ByParts(const Parts& parts, const float* scores, size_t n,
                                              float largest, float alpha, double least_tau, float* out) {
  const float limit = LimitOfDifferences(alpha, least_tau);
  size_t candidates = 0;
  parts.ForEach(n, [&](size_t begin, size_t count) {
    candidates += CopyAbove(scores + begin, count, largest, limit, out + candidates);
  });
  const double tau = SolveExact(out, candidates, alpha, least_tau);
  if (tau != tau) return Fill(out, n, kNaN);
  if (parts.size < n) ClearFront(n, candidates, out);
  parts.ForEach(n, [&](size_t begin, size_t count) {
    WriteExact(scores + begin, count, largest, alpha, static_cast<float>(tau), out + begin);
  });
}

// 1 < alpha < 2
inline void ByNewton(const float* scores, size_t n, float largest, float alpha, double least_tau,
                     float* out) {
  const double c = double{alpha} - 1;
  const float limit = LimitOfDifferences(alpha, least_tau);
  const size_t count = CopyAbove(scores, n, largest, limit, out);
  const double tau = SolveByPowers(out, count, c, least_tau);
  if (tau != tau) return Fill(out, n, kNaN);
  const ExpC exp_c(c, -(1 + tau) / c);
  ForEachInOne<kLanes>(count, [&](size_t i, size_t part) {
    StorePart(exp_c(LoadPart(out + i, part, -kInfinity)).value, out + i, part);
  });
  if (count < n) Spread(scores, n, largest, limit, count, out);
}

// out [n] = probabilities of scores [n] whose largest one is finite; out must not overlap scores. tau of the
// row is at least `least_tau`.
inline void ForwardAbove(const float* scores, size_t n, float largest, float alpha, double least_tau,
                         float* out) {
  if (!(alpha >= 1 && alpha <= kMostAlpha)) return Fill(out, n, kNaN);
  if (IsExact(alpha)) {
    Parts parts;
    TakeAll(n, &parts);
    return ByParts(parts, scores, n, largest, alpha, least_tau, out);
  }
  if (alpha > 1 && alpha < 2) return ByNewton(scores, n, largest, alpha, least_tau, out);
  if (HasNaN(scores, n)) return Fill(out, n, kNaN);
  if (alpha == 1) return Softmax(scores, n, largest, out);
  ByBisection(scores, n, largest, alpha, least_tau, out);
}

inline void ForwardRow(const float* scores, size_t n, float alpha, float* out) {
  Floats best[kBest];
  const bool has_groups = n >= kLongRow && IsExact(alpha);
  const size_t vectors = has_groups ? LargestOfGroups(scores, n, best, out) : LargestOfLanes(scores, n, best);
  const float largest = LargestOf(best, vectors);
  if (!(largest > -kInfinity && largest < kInfinity)) return Fill(out, n, kNaN);
  const double least_tau = LeastTau(best, vectors, largest, alpha);
  if (!has_groups) return ForwardAbove(scores, n, largest, alpha, least_tau, out);
  Parts parts;
  FindParts(out, n, largest, LimitOfDifferences(alpha, least_tau), &parts);
  ByParts(parts, scores, n, largest, alpha, least_tau, out);
}

constexpr size_t kRowsAtOnce = 4, kScoresAtOnce = 1 << 11;  // half of the innermost cache with their result

// Adds numbers that are no candidates, so that few branches depend on the number of candidates.
inline size_t Padded(float* candidates, size_t count, size_t n) {
  constexpr size_t kWhole = 32;
  if (count + kWhole > n) return count;
  for (size_t i = 0; i < kWhole; i += kLanes) StoreFloats(Broadcast(-kInfinity), candidates + count + i);
  return (count + kWhole - 1) / kWhole * kWhole;
}

// Some short rows, for alpha = 2 or 1.5. All of them take a step before the next one, because each step of a
// row waits for the last one, and the processor computes those of other rows meanwhile.
inline void ForwardBlock(const float* scores, size_t rows, size_t n, float alpha, float* out) {
  float largest[kRowsAtOnce];
  double tau[kRowsAtOnce];
  size_t candidates[kRowsAtOnce];
  for (size_t row = 0; row < rows; ++row) {
    Floats best[kBest];
    const size_t vectors = LargestOfLanes(scores + row * n, n, best);
    largest[row] = LargestOf(best, vectors);
    const bool is_finite = largest[row] > -kInfinity && largest[row] < kInfinity;
    tau[row] = is_finite ? LeastTau(best, vectors, largest[row], alpha) : double{kNaN};
  }
  for (size_t row = 0; row < rows; ++row) {
    float* to = out + row * n;
    const float limit = LimitOfDifferences(alpha, tau[row]);
    const bool has_any = limit == limit;
    const size_t count = has_any ? CopyAbove(scores + row * n, n, largest[row], limit, to) : 0;
    candidates[row] = Padded(to, count, n);
  }
  for (size_t row = 0; row < rows; ++row) {
    tau[row] = SolveExact(out + row * n, candidates[row], alpha, tau[row]);
  }
  for (size_t row = 0; row < rows; ++row) {
    const auto found = static_cast<float>(tau[row]);
    if (found != found)
      Fill(out + row * n, n, kNaN);
    else
      WriteExact(scores + row * n, n, largest[row], alpha, found, out + row * n);
  }
}

inline void ForwardShort(const ee_score_rows& of, size_t begin, size_t end, float* out) {
  const size_t at_once = of.n * kRowsAtOnce <= kScoresAtOnce ? kRowsAtOnce
                         : of.n <= kScoresAtOnce             ? kScoresAtOnce / of.n
                                                             : 1;
  for (size_t row = begin; row < end; row += at_once) {
    const size_t rows = end - row < at_once ? end - row : at_once, first = row * of.n;
    ForwardBlock(of.scores + first, rows, of.n, of.alphas[0], out + first);
  }
}

// p^(2 - alpha) where p > 0, else 0.
inline void Sensitivities(const float* p, size_t n, float alpha, float* out) {
  if (alpha == 2 || alpha == 1 || alpha == 1.5F) {
    ForEach<kLanes>(n, [&](size_t i, size_t count) {
      Floats part = LoadPart(p + i, count, 0);
      if (alpha == 2) part = (Floats)((part > Floats{}) & (Integers)Broadcast(1));
      if (alpha == 1.5F) {
        for (size_t lane = 0; lane < kLanes; ++lane) part[lane] = __builtin_sqrtf(part[lane]);
      }
      StorePart(part, out + i, count);
    });
    return;
  }
  ForEachAbove(p, n, 0, 1, 0, [&](size_t i, size_t count, Doubles part, Longs mask) {
    StorePart(Any(mask) ? Where(mask, Power(part, 2 - double{alpha})) : Doubles{}, out + i, count);
  });
}

// Gradient of scores from that of the probabilities p (Peters et al., 2019, section 3):
//
//     dz = s (dp - (sum of s dp) / (sum of s))        s = p^(2 - alpha) where p > 0, else 0
inline void BackwardRow(const float* p, const float* gradient, size_t n, float alpha, float* out) {
  if (n == 0 || p[0] != p[0]) return Fill(out, n, kNaN);
  Sensitivities(p, n, alpha, out);
  Doubles sums{}, products{};
  ForEach<kDoubles>(n, [&](size_t i, size_t count) {
    const Doubles s = LoadPartDoubles(out + i, count, 0);
    sums += s;
    products += s * LoadPartDoubles(gradient + i, count, 0);
  });
  const double mean = Sum(products) / Sum(sums);
  ForEach<kDoubles>(n, [&](size_t i, size_t count) {
    const Doubles given = LoadPartDoubles(gradient + i, count, 0) - mean;
    StorePart(LoadPartDoubles(out + i, count, 0) * given, out + i, count);
  });
}

// (e^-x - 1 + x) / x^2, without cancellation.
inline Doubles SecondOrder(Doubles x, Doubles exponential_less_1) {
  constexpr double kFactors[] = {-1.0 / 11, -1.0 / 10, -1.0 / 9, -1.0 / 8, -1.0 / 7,
                                 -1.0 / 6,  -1.0 / 5,  -1.0 / 4, -1.0 / 3};
  Doubles series = Doubles{} + 1;
  for (const double factor : kFactors) series = series * x * factor + 1;  // 1 - x / 3 (1 - x / 4 (...))
  const Longs is_small = (Longs)(x * x < Doubles{} + 0.0625);
  const Doubles divisor = Select(is_small, Doubles{} + 1, x * x);
  return Select(is_small, series * 0.5, (exponential_less_1 + x) / divisor);
}

// Gradient of alpha from the probabilities p and their gradient. Proposition 1 of Correia et al., 2019,
// without the differences of nearly equal numbers that it has near alpha = 1: with c = alpha - 1, l = ln p, e
// = (p^-c - 1) / c and h = (p^-c - 1 + c l) / c^2, over the p above 0,
//
//     dp_i / dalpha = p_i (sum_j p_j h_j - h_i - l_i sum_j p_j e_j + e_i sum_j p_j l_j) / (sum_j p_j^(1 - c))
inline float AlphaBackwardRow(const float* p, const float* gradient, size_t n, float alpha) {
  if (n == 0 || p[0] != p[0]) return kNaN;
  constexpr double kLn2 = 0.6931471805599453094, kLog2E = 1.442695040888963407;
  const double c = double{alpha} - 1;
  Doubles of_s{}, of_l{}, of_e{}, of_h{}, given_p{}, given_l{}, given_e{}, given_h{};
  ForEachAbove(p, n, 0, 1, 0, [&](size_t i, size_t count, Doubles part, Longs mask) {
    if (!Any(mask)) return;
    const Doubles l = kLn2 * Log2(part), x = c * l, less_1 = Exp2(x * -kLog2E) - 1;
    const Doubles e = c > 0 ? less_1 / c : -l, h = l * l * SecondOrder(x, less_1);
    const Doubles used = Where(mask, part), given = used * LoadPartDoubles(gradient + i, count, 0);
    of_s += used * (less_1 + 1);
    of_l += used * l;
    of_e += used * e;
    of_h += used * h;
    given_p += given;
    given_l += given * l;
    given_e += given * e;
    given_h += given * h;
  });
  const double both = Sum(given_p) * Sum(of_h) - Sum(given_l) * Sum(of_e) + Sum(given_e) * Sum(of_l);
  return static_cast<float>((both - Sum(given_h)) / Sum(of_s));
}

inline float AlphaOf(const ee_score_rows& of, size_t row) {
  return of.alphas[of.alpha_per_row != 0 ? row : 0];
}

inline void Forward(const ee_score_rows* of, size_t begin, size_t end, float* out) {
  const size_t n = of->n;
  if (n < kLongRow && of->alpha_per_row == 0 && IsExact(of->alphas[0]))
    return ForwardShort(*of, begin, end, out);
  for (size_t row = begin; row < end; ++row) {
    ForwardRow(of->scores + row * n, n, AlphaOf(*of, row), out + row * n);
  }
}

// `of->scores` are the probabilities.
inline void Backward(const ee_score_rows* of, const float* gradient, size_t begin, size_t end, float* out) {
  for (size_t row = begin; row < end; ++row) {
    const size_t at = row * of->n;
    BackwardRow(of->scores + at, gradient + at, of->n, AlphaOf(*of, row), out + at);
  }
}

// `of->scores` are the probabilities.
inline void AlphaBackward(const ee_score_rows* of, const float* gradient, size_t begin, size_t end,
                          float* out) {
  for (size_t row = begin; row < end; ++row) {
    const size_t at = row * of->n;
    out[row] = AlphaBackwardRow(of->scores + at, gradient + at, of->n, AlphaOf(*of, row));
  }
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_FAST_H_
