// Rows of any length as vectors, of which the last one may be a part.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_PARTS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_PARTS_H_

#include "kernels/entmax/power.h"

namespace edge_embed::entmax {
namespace {

constexpr float kInfinity = __builtin_inff(), kNaN = __builtin_nanf("");

// Calls with the index and the number of elements of each vector; the last may have fewer than kStep.
template <size_t kStep, class Function>
inline void ForEach(size_t n, const Function& function) {
  size_t i = 0;
  for (; i + kStep <= n; i += kStep) function(i, kStep);
  if (i < n) function(i, n - i);
}

// The same, in one place: for long functions, as the library has a limit of bytes.
template <size_t kStep, class Function>
inline void ForEachInOne(size_t n, const Function& function) {
  for (size_t i = 0; i < n; i += kStep) function(i, n - i < kStep ? n - i : kStep);
}

#if defined(__AVX512F__)
inline __mmask16 FirstLanes(size_t count) { return static_cast<__mmask16>((1U << count) - 1); }
#elif defined(__AVX2__)
inline __m256i FirstLanes(size_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
}
#endif

// The first `count` of a vector, and `fill` for the rest.
inline Floats LoadPart(const float* from, size_t count, float fill) {
  if (count == kLanes) return LoadFloats(from);
#if defined(__AVX512F__)
  return (Floats)_mm512_mask_loadu_ps((__m512)Broadcast(fill), FirstLanes(count), from);
#elif defined(__AVX2__)
  const __m256i first = FirstLanes(count);
  const __m256 part = _mm256_maskload_ps(from, first);
  return (Floats)_mm256_blendv_ps((__m256)Broadcast(fill), part, (__m256)first);
#else
  Floats part = Broadcast(fill);
  for (size_t i = 0; i < count; ++i) part[i] = from[i];
  return part;
#endif
}
inline Doubles LoadPartDoubles(const float* from, size_t count, float fill) {
  if (count == kDoubles) return LoadDoubles(from);
#if defined(__AVX512F__)
  const __m256 filled = _mm256_set1_ps(fill);
  const auto first = static_cast<__mmask8>(FirstLanes(count));
  return Widened((FewFloats)_mm256_mask_loadu_ps(filled, first, from));
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
#elif defined(__AVX2__)
  _mm256_maskstore_ps(to, FirstLanes(count), (__m256)value);
#else
  for (size_t i = 0; i < count; ++i) to[i] = value[i];
#endif
}
inline void StorePart(Doubles value, float* to, size_t count) {
  if (count == kDoubles) return StoreAsFloats(value, to);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(value[i]);
}
// Out of line: the library has a limit of bytes.
__attribute__((noinline)) inline void Fill(float* to, size_t n, float value) {
  for (size_t i = 0; i < n; ++i) to[i] = value;
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_PARTS_H_
