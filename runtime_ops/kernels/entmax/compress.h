// Numbers of a row above a limit, moved to the front of an array, and back to their places.
//
// Vectors are stored whole where the array has room, so that few branches depend on the numbers: those of new
// rows cannot be predicted.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_COMPRESS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_COMPRESS_H_

#include "kernels/entmax/parts.h"

namespace edge_embed::entmax {
namespace {

constexpr size_t kGroup = 4;

#if defined(__AVX2__) && !defined(__AVX512F__)
// For each set of lanes: `front` has their numbers in order, `place` the number of lower ones in the set.
struct LaneTables {
  uint8_t front[256][8], place[256][8];

  constexpr LaneTables() : front{}, place{} {
    for (unsigned set = 0; set < 256; ++set) {
      unsigned found = 0;
      for (unsigned lane = 0; lane < 8; ++lane) {
        place[set][lane] = static_cast<uint8_t>(found);
        if ((set >> lane & 1) != 0) front[set][found++] = static_cast<uint8_t>(lane);
      }
    }
  }
};
constexpr LaneTables kLaneTables;

inline Floats Permuted(Floats vector, const uint8_t* lanes) {
  const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
  return (Floats)_mm256_permutevar8x32_ps((__m256)vector, order);
}
#endif

// The lanes of a vector that are not at or below a limit; those of NaN too.
#if defined(__AVX512F__)
using Lanes = __mmask16;
inline Lanes NotBelow(Floats part, float limit) {
  return _mm512_cmp_ps_mask((__m512)part, (__m512)Broadcast(limit), _CMP_NLE_UQ);
}
inline bool AnyOf(Lanes lanes) { return lanes != 0; }
inline uint64_t BitsOf(Lanes lanes) { return lanes; }
#else
using Lanes = Integers;
inline Lanes NotBelow(Floats part, float limit) { return ~(part <= Broadcast(limit)); }
inline bool AnyOf(Lanes lanes) { return Any(lanes); }
#if defined(__AVX2__)
inline uint64_t BitsOf(Lanes lanes) { return static_cast<unsigned>(_mm256_movemask_ps((__m256)lanes)); }
#endif
#endif

// Moves the first `count` numbers of a vector that are not at or below a limit to the front of `to`, and
// returns how many there are.
inline size_t CopyPart(Floats part, size_t count, float limit, float* to) {
#if defined(__AVX512F__)
  const Lanes above = NotBelow(part, limit);
  const auto number = static_cast<size_t>(__builtin_popcount(above));
  StorePart((Floats)_mm512_maskz_compress_ps(above, (__m512)part), to, count == kLanes ? kLanes : number);
  return number;
#elif defined(__AVX2__)
  const auto above = static_cast<unsigned>(_mm256_movemask_ps((__m256)NotBelow(part, limit)));
  const auto number = static_cast<size_t>(__builtin_popcount(above));
  StorePart(Permuted(part, kLaneTables.front[above]), to, count == kLanes ? kLanes : number);
  return number;
#else
  size_t number = 0;
  for (size_t lane = 0; lane < count; ++lane) {
    to[number] = part[lane];
    number += !(part[lane] <= limit);
  }
  return number;
#endif
}

// The same for kWord numbers, each less `offset`.
#if defined(__AVX2__)
constexpr size_t kWord = 64;
inline size_t CopyWord(const float* from, float offset, float limit, float* to) {
  constexpr size_t kFew = 4;  // as many are copied always: branches cost more
  uint64_t bits = 0;          // the lanes, that of the first number in the lowest bit
  for (size_t i = 0; i < kWord; i += kLanes)
    bits |= BitsOf(NotBelow(LoadFloats(from + i) - offset, limit)) << i;
  const auto number = static_cast<size_t>(__builtin_popcountll(bits));
  const auto copy_few = [&](size_t at) {
    for (size_t k = 0; k < kFew; ++k, bits &= bits - 1) {
      to[at + k] = from[__builtin_ctzll(bits | uint64_t{1} << (kWord - 1))] - offset;
    }
  };
  if (number <= 2 * kFew) {
    copy_few(0);
    if (number > kFew) copy_few(kFew);
    return number;
  }
  size_t kept = 0;
#pragma GCC unroll 1  // the library has a limit of bytes
  for (size_t i = 0; i < kWord; i += kLanes) {
    kept += CopyPart(LoadFloats(from + i) - offset, kLanes, limit, to + kept);
  }
  return kept;
}
#else
constexpr size_t kWord = kGroup * kLanes;
inline size_t CopyWord(const float* from, float offset, float limit, float* to) {
  Floats parts[kGroup];
  Lanes above{};
  for (size_t v = 0; v < kGroup; ++v) {
    parts[v] = LoadFloats(from + v * kLanes) - offset;
    above |= NotBelow(parts[v], limit);
  }
  if (!AnyOf(above)) return 0;  // as most often in long rows
  size_t kept = 0;
  for (const Floats& part : parts) kept += CopyPart(part, kLanes, limit, to + kept);
  return kept;
}
#endif

// Copies the numbers that are not at or below a limit, each less `offset`, and returns their count; NaN too.
// `to` [n] may be `from`. Out of line: the library has a limit of bytes.
__attribute__((noinline)) inline size_t CopyAbove(const float* from, size_t n, float offset, float limit,
                                                  float* to) {
  size_t i = 0, kept = 0;
  for (; i + kWord <= n; i += kWord) kept += CopyWord(from + i, offset, limit, to + kept);
  for (; i < n; i += kLanes) {
    const size_t count = n - i < kLanes ? n - i : kLanes;
    kept += CopyPart(LoadPart(from + i, count, -kInfinity) - offset, count, limit, to + kept);
  }
  return kept;
}

// The reverse: moves `count` numbers at the front of `out` [n] to the places from which CopyAbove took them,
// and sets the others to 0. From the last one on, because the front is overwritten.
inline void Spread(const float* from, size_t n, float offset, float limit, size_t count, float* out) {
  const auto place = [&](size_t i, size_t lanes) {
    const Floats part = LoadPart(from + i, lanes, -kInfinity) - offset;
#if defined(__AVX512F__)
    const Lanes above = NotBelow(part, limit);
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    count -= number;
    const Floats front = LoadPart(out + count, lanes == kLanes ? kLanes : number, 0);
    StorePart((Floats)_mm512_maskz_expand_ps(above, (__m512)front), out + i, lanes);
#elif defined(__AVX2__)
    const auto is_above = (__m256)NotBelow(part, limit);
    const auto above = static_cast<unsigned>(_mm256_movemask_ps(is_above));
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    count -= number;
    const Floats front = LoadPart(out + count, lanes == kLanes ? kLanes : number, 0);
    const auto placed = (__m256)Permuted(front, kLaneTables.place[above]);
    StorePart((Floats)_mm256_and_ps(placed, is_above), out + i, lanes);
#else
    if (!AnyOf(NotBelow(part, limit))) return StorePart(Floats{}, out + i, lanes);
    for (size_t lane = lanes; lane-- > 0;) {
      const bool above = !(part[lane] <= limit);
      count -= above;
      out[i + lane] = above ? out[count] : 0;
    }
#endif
  };
  const size_t rest = n % kLanes;
  if (rest > 0) place(n - rest, rest);
  for (size_t i = n - rest; i > 0; i -= kLanes) place(i - kLanes, kLanes);
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_COMPRESS_H_
