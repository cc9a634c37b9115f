// Numbers of a row above a limit, moved to the front of an array, and back to their places.
//
// Vectors are stored whole where the array has room, so that no branch depends on the numbers: those of new
// rows cannot be predicted.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_COMPRESS_H_
#define EDGE_EMBED_KERNELS_ENTMAX_COMPRESS_H_

#include "kernels/entmax/parts.h"

namespace edge_embed::entmax {
namespace {

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

// Copies the numbers that are not at or below a limit, each less `offset`, and returns their count; NaN too.
// `to` [n] may be `from`.
inline size_t CopyAbove(const float* from, size_t n, float offset, float limit, float* to) {
  size_t kept = 0;
  ForEach<kLanes>(n, [&](size_t i, size_t count) {
    const Floats part = LoadPart(from + i, count, -kInfinity) - offset;
#if defined(__AVX512F__)
    const __mmask16 above = _mm512_cmp_ps_mask((__m512)part, (__m512)Broadcast(limit), _CMP_NLE_UQ);
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    const auto front = (Floats)_mm512_maskz_compress_ps(above, (__m512)part);
    StorePart(front, to + kept, count == kLanes ? kLanes : number);
    kept += number;
#elif defined(__AVX2__)
    const __m256 is_above = _mm256_cmp_ps((__m256)part, (__m256)Broadcast(limit), _CMP_NLE_UQ);
    const auto above = static_cast<unsigned>(_mm256_movemask_ps(is_above));
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    StorePart(Permuted(part, kLaneTables.front[above]), to + kept, count == kLanes ? kLanes : number);
    kept += number;
#else
    if (!Any(~(part <= Broadcast(limit)))) return;
    for (size_t lane = 0; lane < count; ++lane) {
      to[kept] = part[lane];
      kept += !(part[lane] <= limit);
    }
#endif
  });
  return kept;
}

// The reverse: moves `count` numbers at the front of `out` [n] to the places from which CopyAbove took them,
// and sets the others to 0. From the last one on, because the front is overwritten.
inline void Spread(const float* from, size_t n, float offset, float limit, size_t count, float* out) {
  const auto place = [&](size_t i, size_t lanes) {
    const Floats part = LoadPart(from + i, lanes, -kInfinity) - offset;
#if defined(__AVX512F__)
    const __mmask16 above = _mm512_cmp_ps_mask((__m512)part, (__m512)Broadcast(limit), _CMP_NLE_UQ);
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    count -= number;
    const Floats front = LoadPart(out + count, lanes == kLanes ? kLanes : number, 0);
    StorePart((Floats)_mm512_maskz_expand_ps(above, (__m512)front), out + i, lanes);
#elif defined(__AVX2__)
    const __m256 is_above = _mm256_cmp_ps((__m256)part, (__m256)Broadcast(limit), _CMP_NLE_UQ);
    const auto above = static_cast<unsigned>(_mm256_movemask_ps(is_above));
    const auto number = static_cast<size_t>(__builtin_popcount(above));
    count -= number;
    const Floats front = LoadPart(out + count, lanes == kLanes ? kLanes : number, 0);
    const auto placed = (__m256)Permuted(front, kLaneTables.place[above]);
    StorePart((Floats)_mm256_and_ps(placed, is_above), out + i, lanes);
#else
    if (!Any(~(part <= Broadcast(limit)))) return StorePart(Floats{}, out + i, lanes);
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
