// Vectors of float32, as wide as a register of the instruction set that a file is compiled for. They use the
// vector syntax of GCC and Clang: + - * and comparisons work element by element. Arrays may have any
// alignment.
#ifndef EDGE_EMBED_KERNELS_SIMD_H_
#define EDGE_EMBED_KERNELS_SIMD_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/half.h"
#include "kernels/type.h"

namespace edge_embed {
namespace {

// Unrolls a loop over numbers that belong in registers. Compilers do so on their own, except where a small
// file matters most. There, loops over numbers in memory stay loops.
#if defined(__wasm_simd128__)
#define EDGE_EMBED_UNROLL _Pragma("GCC unroll 16")
#define EDGE_EMBED_ROLL _Pragma("GCC unroll 1")
#else
#define EDGE_EMBED_UNROLL
#define EDGE_EMBED_ROLL
#endif

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif
constexpr size_t kLanes = kVectorBytes / sizeof(float);

// Registers that work together as one. Registers of NEON are narrow, but there are 32.
#if defined(__aarch64__)
constexpr size_t kSideBySide = 2;
#else
constexpr size_t kSideBySide = 1;
#endif

typedef float Floats __attribute__((vector_size(kVectorBytes)));

// Bytes of a vector in memory, at any alignment.
typedef float UnalignedFloats __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));

inline Floats LoadFloats(const void* from) { return *static_cast<const UnalignedFloats*>(from); }
inline void StoreFloats(Floats value, void* to) { *static_cast<UnalignedFloats*>(to) = value; }
inline Floats Broadcast(float value) { return value - Floats{}; }

// Returns the pointer unchanged, and hides its value from the compiler. Compilers would otherwise compute the
// next eight addresses at once, for which there are too few registers.
__attribute__((always_inline)) inline void InOrder(const unsigned char** pointer) {
  __asm__ volatile("" : "+r"(*pointer));
}

// Prefetches the cache line `bytes` beyond `from`, for reading or writing. The address may be past the end of
// an array, but must not become a pointer. Always inlined: GCC 12 drops calls of a function that does nothing
// else.
template <bool kWrite = false>
__attribute__((always_inline)) inline void PrefetchAt(const void* from, size_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + bytes), kWrite);
}

// Prefetches for writing: the line that is `ahead` bytes after `bytes` from `to` on. Rows that left the cache
// would otherwise wait for memory, because a processor requests a line only when it is written.
__attribute__((always_inline)) inline void PrefetchOutput(const unsigned char* to, size_t bytes,
                                                          size_t ahead = 2048) {
  constexpr size_t kLine = 64;
  for (size_t byte = 0; byte < bytes; byte += kLine) PrefetchAt<true>(to, ahead + byte);
}

// Scratch is counted in doubles, while vectors begin at a cache line. kAlignment is the number of additional
// doubles.
constexpr size_t kAlignment = kVectorBytes / sizeof(double);

inline size_t ToAlignment(const double* memory) {
  const size_t past = reinterpret_cast<uintptr_t>(memory) % kVectorBytes / sizeof(double);
  return past == 0 ? 0 : kAlignment - past;
}
inline float* AlignedFloats(double* memory) { return reinterpret_cast<float*>(memory + ToAlignment(memory)); }
inline const float* AlignedFloats(const double* memory) {
  return reinterpret_cast<const float*>(memory + ToAlignment(memory));
}

// As many 32-bit words as floats: indices, and bits of floats.
typedef uint32_t Words __attribute__((vector_size(kVectorBytes)));

// True if any bit is set in a vector of integers.
template <class Vector>
__attribute__((always_inline)) inline bool Any(Vector vector) {
  uint64_t pairs[sizeof(Vector) / sizeof(uint64_t)], any = 0;
  __builtin_memcpy(pairs, &vector, sizeof(pairs));
  for (const uint64_t pair : pairs) any |= pair;
  return any != 0;
}

typedef uint16_t HalfBits __attribute__((vector_size(kVectorBytes / 2)));
typedef uint16_t UnalignedHalfBits __attribute__((vector_size(kVectorBytes / 2), aligned(1), may_alias));

#if defined(__F16C__) || defined(__aarch64__)
constexpr bool kHalvesAreFast = true;  // one instruction converts a vector
#else
constexpr bool kHalvesAreFast = false;
#endif

#if defined(__AVX512F__)  // with a mask of all lanes, because the header of GCC 12 causes warnings without it
inline Floats LoadHalves(const void* from) {
  return (Floats)_mm512_maskz_cvtph_ps(0xFFFF, (__m256i) * static_cast<const UnalignedHalfBits*>(from));
}
inline void StoreHalves(Floats value, void* to) {
  *static_cast<UnalignedHalfBits*>(to) = (HalfBits)_mm512_maskz_cvtps_ph(0xFFFF, (__m512)value, 0);
}
#elif defined(__F16C__)
inline Floats LoadHalves(const void* from) {
  return (Floats)_mm256_cvtph_ps((__m128i) * static_cast<const UnalignedHalfBits*>(from));
}
inline void StoreHalves(Floats value, void* to) {
  *static_cast<UnalignedHalfBits*>(to) = (HalfBits)_mm256_cvtps_ph((__m256)value, 0);
}
#elif defined(__aarch64__)
inline Floats LoadHalves(const void* from) {
  return (Floats)vcvt_f32_f16((float16x4_t) * static_cast<const UnalignedHalfBits*>(from));
}
inline void StoreHalves(Floats value, void* to) {
  *static_cast<UnalignedHalfBits*>(to) = (HalfBits)vcvt_f16_f32((float32x4_t)value);
}
#else
typedef uint32_t FloatBits __attribute__((vector_size(kVectorBytes)));

// Converts kLanes float16 numbers, each as ToFloat does (kernels/half.h).
inline Floats LoadHalves(const void* from) {
  const FloatBits bits =
      __builtin_convertvector((HalfBits) * static_cast<const UnalignedHalfBits*>(from), FloatBits);
  constexpr uint32_t kRebias = (127 - 15) << 23, kSmallestNormal = (127 - 14) << 23;
  const FloatBits magnitude = (bits & 0x7FFF) << 13;
  const FloatBits is_subnormal = (FloatBits)(magnitude < (1U << 23));
  const FloatBits is_not_finite = (FloatBits)(magnitude >= (31U << 23));
  const FloatBits normal = magnitude + kRebias + (is_not_finite & kRebias);
  const Floats shifted = (Floats)(magnitude + kSmallestNormal) - (Floats)(FloatBits{} + kSmallestNormal);
  return (Floats)((is_subnormal & (FloatBits)shifted) | (~is_subnormal & normal) | (bits & 0x8000) << 16);
}
// Rounds to nearest, ties to even, each as ToHalf does. Below 2^-14, halves are multiples of 2^-24, which is
// the last place of a float near 1/2.
inline void StoreHalves(Floats value, void* to) {
  constexpr uint32_t kRebias = (127 - 15) << 23, kSmallestNormal = (127 - 14) << 23, kInfinity = 255U << 23;
  constexpr uint32_t kTooLarge = 0x477FF000;  // 65520, halfway from the largest half to the next power of two
  const FloatBits bits = (FloatBits)value, magnitude = bits & 0x7FFFFFFF;
  const FloatBits normal = (magnitude - kRebias + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const FloatBits tiny = (FloatBits)((Floats)magnitude + 0.5F) - BitsOfFloat(0.5F);
  const FloatBits is_tiny = (FloatBits)(magnitude < kSmallestNormal);
  const FloatBits is_large = (FloatBits)(magnitude >= kTooLarge);
  const FloatBits large = 0x7C00 | ((FloatBits)(magnitude > kInfinity) & 0x200);
  const FloatBits half = (is_large & large) | (~is_large & ((is_tiny & tiny) | (~is_tiny & normal)));
  *static_cast<UnalignedHalfBits*>(to) = __builtin_convertvector(half | (bits >> 16 & 0x8000), HalfBits);
}
#endif

typedef int32_t Integers __attribute__((vector_size(kVectorBytes)));
typedef int16_t ShortIntegers __attribute__((vector_size(2 * kLanes)));
typedef int8_t UnalignedInt8 __attribute__((vector_size(kLanes), aligned(1), may_alias));

// Converts kLanes int8 numbers.
inline Floats LoadInt8(const void* from) {
#if defined(__AVX512F__)
  const auto bytes = (__m128i) * static_cast<const UnalignedInt8*>(from);
  return __builtin_convertvector((Integers)_mm512_maskz_cvtepi8_epi32(0xFFFF, bytes), Floats);
#elif defined(__AVX2__)
  const auto integers = (Integers)_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
  return __builtin_convertvector(integers, Floats);
#else  // GCC 12 converts 8 to 32 bits element by element, but uses vectors for 8 to 16 and 16 to 32 bits
  const UnalignedInt8 bytes = *static_cast<const UnalignedInt8*>(from);
  const auto integers = __builtin_convertvector(__builtin_convertvector(bytes, ShortIntegers), Integers);
  return __builtin_convertvector(integers, Floats);
#endif
}

// Loads kLanes numbers as float16 or float32.
inline void StoreAs(Floats value, ee_type type, void* to) {
  if (type == EE_FLOAT16) {
    StoreHalves(value, to);
  } else {
    StoreFloats(value, to);
  }
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_SIMD_H_
