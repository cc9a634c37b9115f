// Powers of double vectors, without a mathematics library, which a freestanding build lacks.
//
//   x^e = 2^(e log2 x)      relative error below 1e-12 (1 + |e log2 x|)
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_POWER_H_
#define EDGE_EMBED_KERNELS_ENTMAX_POWER_H_

#include "kernels/entmax/reduce.h"

namespace edge_embed::entmax {
namespace {

typedef double Doubles __attribute__((vector_size(kVectorBytes)));
typedef int64_t Longs __attribute__((vector_size(kVectorBytes)));
typedef float FewFloats __attribute__((vector_size(kVectorBytes / 2)));
typedef float UnalignedFewFloats __attribute__((vector_size(kVectorBytes / 2), aligned(1), may_alias));
constexpr size_t kDoubles = kVectorBytes / sizeof(double);

inline Doubles Widened(FewFloats vector) {
#if defined(__AVX512F__)  // GCC 12 converts quarters
  return (Doubles)_mm512_maskz_cvtps_pd(0xFF, (__m256)vector);
#else
  return __builtin_convertvector(vector, Doubles);
#endif
}
inline Doubles LoadDoubles(const float* from) {
  return Widened(*reinterpret_cast<const UnalignedFewFloats*>(from));
}
inline void StoreAsFloats(Doubles value, float* to) {
  *reinterpret_cast<UnalignedFewFloats*>(to) = __builtin_convertvector(value, FewFloats);
}
inline double Sum(Doubles vector) {
  return Reduced<double, kDoubles>(vector, [](auto a, auto b) { return a + b; });
}
inline double Smallest(Doubles vector) {
  return Reduced<double, kDoubles>(vector, [](auto a, auto b) { return a < b ? a : b; });
}
// Sums of two elements each, in double.
inline Doubles Pairs(Floats vector) {
  FewFloats halves[2];
  __builtin_memcpy(halves, &vector, sizeof(halves));
  return Widened(halves[0]) + Widened(halves[1]);
}
// A vector where a mask is set, 0 elsewhere.
inline Doubles Where(Longs mask, Doubles chosen) { return (Doubles)(mask & (Longs)chosen); }
inline Doubles Select(Longs mask, Doubles chosen, Doubles other) {
  return (Doubles)((mask & (Longs)chosen) | (~mask & (Longs)other));
}

// Log2 of normal positive numbers. With x = 2^k m and m in [sqrt(1/2), sqrt(2)), t = (m - 1) / (m + 1):
// log2 m = 2 / ln 2 (t + t^3 / 3 + t^5 / 5 + ...).
inline Doubles Log2(Doubles x) {
  constexpr int64_t kSqrtHalf = 0x3FE6A09E667F3BCD, kMantissa = 0x000FFFFFFFFFFFFF,
                    kTwo52 = 0x4330000000000000;
  constexpr int64_t kBias = 1 << 20;  // keeps the exponent below positive
  const Longs bits = (Longs)x - kSqrtHalf;
  const Longs exponent = (bits >> 52) + kBias;
  const Doubles k = (Doubles)(exponent | kTwo52) - (0x1p52 + kBias);
  const Doubles m = (Doubles)((bits & kMantissa) + kSqrtHalf);
  const Doubles t = (m - 1) / (m + 1), square = t * t;
  constexpr double kFactors[] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                                 1.0 / 7,  1.0 / 5,  1.0 / 3,  1};
  Doubles series{};
  for (const double factor : kFactors) series = series * square + factor;
  return k + 2.885390081777926815 * t * series;
}

// 2^y; 0 below the smallest normal number. y must be less than 1024.
inline Doubles Exp2(Doubles y) {
  constexpr double kRound = 0x1.8p52, kLn2 = 0.6931471805599453094;
  const Longs is_large = (Longs)(y > Doubles{} - 1022);
  const Doubles clamped = Where(is_large, y);
  const Doubles shifted = clamped + kRound, whole = shifted - kRound, r = (clamped - whole) * kLn2;
  constexpr double kFactors[] = {1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8, 1.0 / 7, 1.0 / 6,
                                 1.0 / 5,  1.0 / 4,  1.0 / 3, 1.0 / 2, 1};
  Doubles series = Doubles{} + 1;
  for (const double factor : kFactors)
    series = series * r * factor + 1;  // 1 + r (1 + r / 2 (1 + r / 3 (...)))
  const Longs scaled = (Longs)series + ((Longs)shifted << 52);
  return Where(is_large, (Doubles)scaled);
}

inline Doubles Power(Doubles base, double exponent) { return Exp2(Log2(base) * exponent); }
inline double Power(double base, double exponent) { return Power(Doubles{} + base, exponent)[0]; }

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_POWER_H_
