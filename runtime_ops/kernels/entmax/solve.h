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

// (1 - sum^-c) / c, which is 0 for a sum of 1, and nearly linear in a change of all y in exp_c(y).
inline double Logarithm(double sum, double c) {
  const double more = sum - 1;
  if (more * more < 1e-3) return more * (1 - (1 + c) / 2 * more * (1 - (2 + c) / 3 * more));
  return (1 - Power(sum, -c)) / c;
}

// The step of Newton for mu = -(1 + tau) / c: the sum of exp_c(difference + mu) is 1.
inline double Step(double sum, double slope, double c) { return Logarithm(sum, c) * sum / slope; }

inline double SolveByPowers(const float* differences, size_t n, double c, double tau) {
  constexpr int kMost = 12;
  // The next step would be below the precision of float: it is at most as the square of this one, or as the
  // power 1 / c where a candidate falls below tau.
  const double last = c <= 0.5 ? 2e-4 : 3e-7 + Power(3e-8, c);
  const auto narrow = static_cast<float>(c), inverse = static_cast<float>(1 / c);
  double mu = -(1 + tau) / c;
  for (int step = 0; step < kMost; ++step) {
    Doubles sums{}, slopes{};
    ForEach<kLanes>(n, [&](size_t i, size_t count) {
      const Deformed p =
          ExpC(LoadPart(differences + i, count, -kInfinity) + static_cast<float>(mu), narrow, inverse);
      sums += Pairs(p.value);
      slopes += Pairs(p.slope);
    });
    const double more = Step(Sum(sums), Sum(slopes), c);
    mu -= more;
    if (!(more * more > last * last)) break;
  }
  return -1 - c * mu;
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_SOLVE_H_
