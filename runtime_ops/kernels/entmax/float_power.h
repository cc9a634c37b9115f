// The deformed exponential of float vectors, without a mathematics library, which a freestanding build lacks.
//
//   exp_c(y) = (1 + c y)^(1 / c) = e^(log(1 + c y) / c)      0 where 1 + c y <= 0      c > 0, y <= 0
//
// A power of the rounded 1 + c y would lose all digits for small c: their errors are divided by c. The
// logarithm adds the part that 1 + c y lost, so that its relative error is that of float, and so is y's
// effect. The error of exp_c(y) is below 3e-7 for c <= 1.
//
// Sources of the polynomials: logf and expf of the Cephes library, Moshier, 1992.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_FLOAT_POWER_H_
#define EDGE_EMBED_KERNELS_ENTMAX_FLOAT_POWER_H_

#include "kernels/simd.h"

namespace edge_embed::entmax {
namespace {

// A vector where a mask is set, 0 elsewhere.
inline Floats WhereFloats(Integers mask, Floats chosen) { return (Floats)(mask & (Integers)chosen); }

// log(x) of normal positive numbers: with x = 2^k (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)),
// k log 2 + f - f^2 / 2 + f^3 P(f).
inline Floats Log(Floats x) {
  constexpr int32_t kSqrtHalf = 0x3F3504F3, kMantissa = 0x007FFFFF;
  const Integers bits = (Integers)x - kSqrtHalf;
  const Floats k = __builtin_convertvector(bits >> 23, Floats);
  const Floats f = (Floats)((bits & kMantissa) + kSqrtHalf) - 1;
  constexpr float kFactors[] = {-1.1514610310E-1F, 1.1676998740E-1F, -1.2420140846E-1F, 1.4249322787E-1F,
                                -1.6668057665E-1F, 2.0000714765E-1F, -2.4999993993E-1F, 3.3333331174E-1F};
  Floats series = Broadcast(7.0376836292E-2F);
  for (const float factor : kFactors) series = series * f + factor;
  const Floats square = f * f;
  return k * 0.6931471805599453F + (f + square * (f * series - 0.5F));
}

// e^y; 0 below the smallest normal number. y <= 0, or NaN, which stays.
inline Floats Exp(Floats y) {
  constexpr float kRound = 0x1.8p23F, kLog2E = 1.4426950408889634F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const Integers is_small = y < Broadcast(-87);
  const Floats clamped = (Floats)(~is_small & (Integers)y);
  const Floats shifted = clamped * kLog2E + kRound, whole = shifted - kRound;
  const Floats r = (clamped - whole * kLn2High) - whole * kLn2Low;
  const Floats square = r * r;
  const Floats low =
      (r * 1.6666665459E-1F + 5.0000001201E-1F) + square * (r * 8.3334519073E-3F + 4.1665795894E-2F);
  const Floats high = r * 1.9875691500E-4F + 1.3981999507E-3F;
  const Floats power = (low + square * square * high) * square + r + 1;
  const Floats scaled = (Floats)((Words)power + ((Words)shifted << 23));
  return (Floats)(~is_small & (Integers)scaled);
}

// exp_c(y) and its derivative exp_c(y) / (1 + c y), 0 where 1 + c y <= 0.
struct Deformed {
  Floats value, slope;
};

// exp_c(difference + mu). 1 + c y is c difference + (1 + c mu), which is precise where it is near 0.
struct ExpC {
  float c, inverse_c, mu, base;

  ExpC(double factor, double shift)
      : c(static_cast<float>(factor)),
        inverse_c(static_cast<float>(1 / factor)),
        mu(static_cast<float>(shift)),
        base(static_cast<float>(1 + factor * shift)) {}

  Deformed operator()(Floats difference) const {
    const Floats product = (difference + mu) * c, given = difference * c + base;
    const Integers is_out = given <= Floats{};
    const Floats positive = is_out ? Broadcast(1) : given;
    const Floats lost = WhereFloats(positive > Broadcast(0.5F), product - (positive - 1)),
                 inverse = 1 / positive;
    const Floats power = Exp((Log(positive) + lost * inverse) * inverse_c);
    const Floats value = (Floats)(~is_out & (Integers)power);
    return {value, value * inverse};
  }
};

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_FLOAT_POWER_H_
