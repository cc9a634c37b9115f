// Kernels of kernels/entmax/entmax.h for the instruction set that a file is compiled for.
//
// A positive probability needs (alpha - 1)(z - max z) > -1, which few scores of a long row satisfy. These
// candidates are copied to the memory of the result, and a Newton iteration approaches tau from below:
//
//     g(tau) = (sum of (x - tau)^e)^(1 / e) = 1        x = (alpha - 1)(z - max z), e = 1 / (alpha - 1)
//
// For e >= 1, g is a norm, so it is convex, and nearly linear. Every step leaves out the candidates at and
// below tau. For e = 1, the step is exact; for e = 2, tau follows from the sums once all candidates lie above
// it. For e < 1, bisection takes the place of Newton's steps.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_FAST_H_
#define EDGE_EMBED_KERNELS_ENTMAX_FAST_H_

#include "kernels/entmax/entmax.h"
#include "kernels/entmax/power.h"

namespace edge_embed::entmax {
namespace {

constexpr float kMostAlpha = 4;
constexpr float kInfinity = __builtin_inff(), kNaN = __builtin_nanf("");

// Calls with the index and the number of elements of each vector; the last may have fewer than kStep.
template <size_t kStep, class Function>
inline void ForEach(size_t n, const Function& function) {
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) function(i, kStep);
  if (i < n) function(i, n - i);
}

#if defined(__AVX512F__)
inline __mmask16 FirstLanes(size_t count) { return static_cast<__mmask16>((1U << count) - 1); }
#endif

// The first `count` of a vector, and `fill` for the rest.
inline Floats LoadPart(const float* from, size_t count, float fill) {
  if (count == kLanes) return LoadFloats(from);
#if defined(__AVX512F__)
  return (Floats)_mm512_mask_loadu_ps((__m512)Broadcast(fill), FirstLanes(count), from);
#else
  Floats part = Broadcast(fill);
  for (size_t i = 0; i < count; ++i) part[i] = from[i];
  return part;
#endif
}
inline Doubles LoadPartDoubles(const float* from, size_t count, float fill) {
  if (count == kDoubles) return LoadDoubles(from);
#if defined(__AVX512F__)
  const __m256 filled = (__m256) __builtin_convertvector(Doubles{} + double{fill}, FewFloats);
  const auto first = static_cast<__mmask8>(FirstLanes(count));
  return __builtin_convertvector((FewFloats)_mm256_mask_loadu_ps(filled, first, from), Doubles);
#else
  Doubles part = Doubles{} + double{fill};
  for (size_t i = 0; i < count; ++i) part[i] = double{from[i]};
  return part;
#endif
}
inline void StorePart(Floats value, float* to, size_t count) {
  if (count == kLanes) return StoreFloats(value, to);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, FirstLanes(count), (__m512)value);
#else
  for (size_t i = 0; i < count; ++i) to[i] = value[i];
#endif
}
inline void StorePart(Doubles value, float* to, size_t count) {
  if (count == kDoubles) return StoreAsFloats(value, to);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(value[i]);
}
inline void Fill(float* to, size_t n, float value) {
  for (size_t i = 0; i < n; ++i) to[i] = value;
}

// The largest score; NaN if any is NaN. Two maxima at a time, as each waits for the one before.
inline float Largest(const float* scores, size_t n) {
  Floats best[2] = {Broadcast(-kInfinity), Broadcast(-kInfinity)};
  Integers unordered{};
  const auto take = [&](Floats part, Floats* largest) {
    unordered |= part != part;
    *largest = part > *largest ? part : *largest;
  };
  ForEach<2 * kLanes>(n, [&](size_t i, size_t count) {
    take(LoadPart(scores + i, count < kLanes ? count : kLanes, -kInfinity), &best[0]);
    if (count > kLanes) take(LoadPart(scores + i + kLanes, count - kLanes, -kInfinity), &best[1]);
  });
  if (Any(unordered)) return kNaN;
  float largest = -kInfinity;
  for (size_t i = 0; i < kLanes; ++i) {
    const float higher = best[0][i] > best[1][i] ? best[0][i] : best[1][i];
    largest = higher > largest ? higher : largest;
  }
  return largest;
}

// Copies the numbers above a limit, each less `offset`, and returns their count. `to` may be `from`.
inline size_t CopyAbove(const float* from, size_t n, float offset, float limit, float* to) {
  size_t kept = 0;
  ForEach<kLanes>(n, [&](size_t i, size_t count) {
    const Floats part = LoadPart(from + i, count, -kInfinity) - offset;
#if defined(__AVX512F__)
    const __mmask16 above = _mm512_cmp_ps_mask((__m512)part, (__m512)Broadcast(limit), _CMP_GT_OQ);
    if (above == 0) return;
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    StorePart((Floats)_mm512_maskz_compress_ps(above, (__m512)part), to + kept, number);
    kept += number;
#else
    if (!Any(part > Broadcast(limit))) return;
    for (size_t lane = 0; lane < count; ++lane) {
      to[kept] = part[lane];
      kept += part[lane] > limit;
    }
#endif
  });
  return kept;
}

// Candidates of a row: scores less the largest one, which are at most 0.
struct Candidates {
  float* differences;
  size_t count;
  double factor;  // alpha - 1: x = factor * difference

  // Leaves out those that have x <= tau.
  void KeepAbove(double tau) {
    count = CopyAbove(differences, count, 0, static_cast<float>(tau / factor), differences);
  }
};

inline double SolveSparsemax(Candidates* all) {
  for (;;) {
    Doubles sums{};
    ForEach<kDoubles>(
        all->count, [&](size_t i, size_t count) { sums += LoadPartDoubles(all->differences + i, count, 0); });
    const double tau = (Sum(sums) - 1) / static_cast<double>(all->count);
    const size_t before = all->count;
    all->KeepAbove(tau);
    if (all->count == before) return tau;
  }
}

// Newton's steps end when the next one would be below the precision of double.
constexpr double kLastStep = 1e-9;
constexpr int kMostSteps = 64;

inline double SolveEntmax15(Candidates* all, double tau) {
  for (int step = 0; step < kMostSteps; ++step) {
    Doubles sums{}, squares{}, least{};
    ForEach<kDoubles>(all->count, [&](size_t i, size_t count) {
      const Doubles x = 0.5 * LoadPartDoubles(all->differences + i, count, 0);
      sums += x;
      squares += x * x;
      least = Select((Longs)(x < least), x, least);
    });
    double lowest = 0;
    for (size_t i = 0; i < kDoubles; ++i) lowest = least[i] < lowest ? least[i] : lowest;
    const double count = static_cast<double>(all->count), sum = Sum(sums), square = Sum(squares);
    const double mean = sum / count, variance = square - sum * mean;
    if (variance <= 1) {
      const double exact = mean - __builtin_sqrt((1 - variance) / count);
      if (lowest > exact) return exact;
    }
    const double slope = sum - count * tau, norm = __builtin_sqrt(square - (sum + slope) * tau);
    const double more = (norm - 1) * norm / slope;
    if (!(more > 0)) return tau;
    tau += more;
    if (more < kLastStep) return tau;
    all->KeepAbove(tau);
  }
  return tau;
}

inline Doubles Power(Doubles base, double exponent) { return Exp2(Log2(base) * exponent); }
inline double Power(double base, double exponent) { return Power(Doubles{} + base, exponent)[0]; }

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

// The sum of (x - tau)^e over the scores with x above tau, and that of (x - tau)^(e - 1).
struct Sums {
  double of_powers, of_lower_powers;
};
inline Sums SumsOf(const float* scores, size_t n, float largest, double factor, double tau) {
  Doubles powers{}, lower_powers{};
  ForEachAbove(scores, n, largest, factor, tau, [&](size_t, size_t, Doubles above, Longs mask) {
    if (!Any(mask)) return;
    const Doubles power = Where(mask, Power(above, 1 / factor - 1));
    lower_powers += power;
    powers += power * above;
  });
  return {Sum(powers), Sum(lower_powers)};
}

inline double SolveByNewton(Candidates* all, double tau) {
  for (int step = 0; step < kMostSteps; ++step) {
    const Sums sums = SumsOf(all->differences, all->count, 0, all->factor, tau);
    const double norm = Power(sums.of_powers, all->factor);
    const double more = (norm - 1) * sums.of_powers / (norm * sums.of_lower_powers);
    if (!(more > 0)) return tau;
    tau += more;
    if (more < kLastStep * all->factor) return tau;
    all->KeepAbove(tau);
  }
  return tau;
}

// With the scores themselves: candidates are rounded, and for e < 1 the power would multiply that.
inline double SolveByBisection(const float* scores, size_t n, float largest, double factor) {
  double low = -1, high = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    const double middle = (low + high) / 2;
    (SumsOf(scores, n, largest, factor, middle).of_powers < 1 ? high : low) = middle;
  }
  return low;
}

// tau of a row whose largest score is finite, which is at least `tau`. `memory` [n] is overwritten.
inline double Solve(const float* scores, size_t n, float largest, float alpha, float* memory, double tau) {
  const double factor = double{alpha} - 1;
  if (alpha > 2) return SolveByBisection(scores, n, largest, factor);
  const auto limit = static_cast<float>(tau / factor);
  Candidates all{memory, CopyAbove(scores, n, largest, limit, memory), factor};
  if (alpha == 2) return SolveSparsemax(&all);
  if (alpha == 1.5F) return SolveEntmax15(&all, tau);
  return SolveByNewton(&all, tau);
}

constexpr double kLog2E = 1.442695040888963407;

inline void Softmax(const float* scores, size_t n, float largest, float* out) {
  Doubles sums{};
  const auto exponential = [&](size_t i, size_t count) {
    return Exp2((LoadPartDoubles(scores + i, count, -kInfinity) - double{largest}) * kLog2E);
  };
  ForEach<kDoubles>(n, [&](size_t i, size_t count) { sums += exponential(i, count); });
  const double share = 1 / Sum(sums);
  ForEach<kDoubles>(
      n, [&](size_t i, size_t count) { StorePart(exponential(i, count) * share, out + i, count); });
}

// out [n] = probabilities of scores [n]; out must not overlap scores. tau of the row is at least `least_tau`.
inline void ForwardRow(const float* scores, size_t n, float alpha, float* out, double least_tau = -1) {
  const float largest = Largest(scores, n);
  const bool is_known = alpha >= 1 && alpha <= kMostAlpha;
  if (!(is_known && largest > -kInfinity && largest < kInfinity)) return Fill(out, n, kNaN);
  if (alpha == 1) return Softmax(scores, n, largest, out);
  const double tau = Solve(scores, n, largest, alpha, out, least_tau);
  const auto low = static_cast<float>(tau);
  if (alpha == 2 || alpha == 1.5F) {
    ForEach<kLanes>(n, [&](size_t i, size_t count) {
      const Floats difference = LoadPart(scores + i, count, -kInfinity) - largest;
      const Floats above = (alpha == 2 ? difference : 0.5F * difference) - low;
      const Floats positive = above > Floats{} ? above : Floats{};
      StorePart(alpha == 2 ? positive : positive * positive, out + i, count);
    });
    return;
  }
  const double exponent = 1 / (double{alpha} - 1);
  ForEachAbove(scores, n, largest, double{alpha} - 1, tau,
               [&](size_t i, size_t count, Doubles above, Longs mask) {
                 const bool any = Any(mask);
                 StorePart(any ? Where(mask, Power(above, exponent)) : Doubles{}, out + i, count);
               });
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
  constexpr double kLn2 = 0.6931471805599453094;
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
  for (size_t row = begin; row < end; ++row) {
    ForwardRow(of->scores + row * of->n, of->n, AlphaOf(*of, row), out + row * of->n);
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
