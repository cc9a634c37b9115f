// tau of a row, from its candidates: scores less the largest one that can have a positive probability.
//
//     g(tau) = (sum of (x - tau)^e)^(1 / e) = 1        x = (alpha - 1)(z - max z), e = 1 / (alpha - 1)
//
// For e >= 1, g is a norm, so it is convex, and nearly linear: Newton's steps approach tau from below. For
// e = 1, a step is exact once all x above tau are above the next one; for e = 2, tau follows from the sums
// then. For e < 1, bisection takes the place of Newton's steps.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_SOLVE_H_
#define EDGE_EMBED_KERNELS_ENTMAX_SOLVE_H_

#include "kernels/entmax/float_power.h"
#include "kernels/entmax/parts.h"

namespace edge_embed::entmax {
namespace {

constexpr int kMostSteps = 64;

// Sums over the x above tau, or NaN if any x is.
struct Excess {
  double sum, squares;  // of x - tau
  double count, least;  // least is the smallest x - tau
};

inline Excess ExcessOf(const float* differences, size_t n, double factor, double tau) {
  Doubles sum{}, squares{}, counts{}, least = Doubles{} + 1;
  ForEach<kDoubles>(n, [&](size_t i, size_t count) {
    const Doubles above = LoadPartDoubles(differences + i, count, -kInfinity) * factor - tau;
    const Longs is_out = (Longs)(above <= Doubles{});
    const Doubles kept = Where(~is_out, above);
    sum += kept;
    squares += kept * kept;
    counts += Where(~is_out, Doubles{} + 1);
    const Doubles or_1 = Select(is_out, Doubles{} + 1, above);
    least = Select((Longs)(or_1 < least), or_1, least);
  });
  return {Sum(sum), Sum(squares), Sum(counts), Smallest(least)};
}

inline double SolveSparsemax(const float* differences, size_t n, double tau) {
  for (int step = 0; step < kMostSteps; ++step) {
    const Excess found = ExcessOf(differences, n, 1, tau);
    const double more = (found.sum - 1) / found.count;
    tau += more;
    if (!(more >= found.least)) break;
  }
  return tau;
}

inline double SolveEntmax15(const float* differences, size_t n, double tau) {
  constexpr double kLastStep = 1e-9;
  for (int step = 0; step < kMostSteps; ++step) {
    const Excess found = ExcessOf(differences, n, 0.5, tau);
    // If tau grows by t, the sum of squares becomes 1 where count t^2 - 2 sum t + squares = 1.
    const double root = found.sum * found.sum - found.count * (found.squares - 1);
    if (root >= 0) {
      const double exact = (found.sum - __builtin_sqrt(root)) / found.count;
      if (exact < found.least) return tau + exact;
    }
    const double norm = __builtin_sqrt(found.squares), more = (norm - 1) * norm / found.sum;
    tau += more;
    if (!(more > kLastStep)) break;
  }
  return tau;
}

// log(x) of normal positive numbers, by the first terms of Log2 (power.h); NaN stays.
inline double LogOf(double x) {
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD, kMantissa = 0x000FFFFFFFFFFFFF;
  constexpr double kFactors[] = {1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1};
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  bits -= kSqrtHalf;
  const auto exponent = static_cast<double>(static_cast<int64_t>(bits) >> 52);
  bits = (bits & kMantissa) + kSqrtHalf;
  double m;
  __builtin_memcpy(&m, &bits, sizeof(m));
  const double t = (m - 1) / (m + 1), square = t * t;
  double series = 1.0 / 11;
  for (const double factor : kFactors) series = series * square + factor;
  return x != x ? x : exponent * 0.6931471805599453094 + 2 * t * series;
}

// Newton's step for mu = -(1 + tau) / c, where the sum of exp_c(difference + mu) is 1, from the sum and that
// of the derivatives. It finds the zero of (sum^c - 1) / c, which is nearly linear in mu.
//
// It takes (1 - sum^-c) / c = log(sum) (1 - e^-x) / x with x = c log(sum) and, for x > 0, a bound
// (1 - e^-x) / x > 1 / (1 + x / 2 + x^2 / 12), which differs by x^4 / 720.
struct Step {
  double less, derivative;

  Step(double sum, double slope, double c) {
    const double log = LogOf(sum), x = c * log, divisor = 1 + x * (0.5 + x * (1.0 / 12));
    less = log * sum / (slope * divisor);
    derivative = slope * divisor / (sum * (divisor - x));
  }
};

inline double SolveByPowers(const float* differences, size_t n, double c, double tau) {
  constexpr int kMost = 12;
  // Steps end when the next one would be below the precision of float. Its size is that of this one to the
  // third power, or to the power 1 / c where a candidate falls below tau.
  const double last = c <= 1.0 / 3 ? 2e-3 : c <= 0.5 ? 1.5e-4 : c <= 0.75 ? 2e-6 : 3e-7;
  double mu = -(1 + tau) / c, change = 0, before = 0;
  for (int number = 0; number < kMost; ++number) {
    const ExpC exp_c(c, mu);
    Doubles sums{};
    Floats slopes{};  // which need not be as precise
    ForEach<kLanes>(n, [&](size_t i, size_t count) {
      const Deformed p = exp_c(LoadPart(differences + i, count, -kInfinity));
      sums += Pairs(p.value);
      slopes += p.slope;
    });
    const Step step(Sum(sums), double{Sum(slopes)}, c);
    double less = step.less;
    if (number > 0 && c <= 0.5) {  // half the change of the derivative, if it goes on as in the last step
      less *= 1 + 0.5 * less * (before - step.derivative) / (change * step.derivative);
    }
    mu -= less;
    if (!(less * less > last * last)) break;
    change = less;
    before = step.derivative;
  }
  return -1 - c * mu;
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_SOLVE_H_
