// Logits of the rows of each tier, in the order of the ids.
//
// Vectors of kLanes ids are composed of the next logits of each tier, expanded to the lanes of its ids.
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_INTERLEAVE_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_INTERLEAVE_H_

#include "kernels/dpq/fast_logits.h"
#include "kernels/tiered/loops.h"
#include "kernels/tiered/map.h"

namespace edge_embed::tiered {
namespace {

#if defined(__AVX2__)

// The lanes of each tier, of kLanes ids from a multiple of kLanes on.
class Lanes {
 public:
  __attribute__((always_inline)) Lanes(const unsigned char* map, size_t id) {
    uint32_t codes = 0;
    __builtin_memcpy(&codes, map + id / 4, kLanes / 4);
    low_ = _pext_u32(codes, 0x55555555);
    high_ = _pext_u32(codes, 0xAAAAAAAA);
  }

  // Of tier 0, 1 or 2.
  __attribute__((always_inline)) uint32_t Of(size_t tier) const {
    constexpr uint32_t kAll = (uint32_t{1} << kLanes) - 1;
    return tier == 0 ? ~(low_ | high_) & kAll : tier == 1 ? low_ & ~high_ : high_ & ~low_;
  }

 private:
  uint32_t low_, high_;
};

// The numbers at `from`, in the given lanes; the others are those of `before`.
__attribute__((always_inline)) inline Floats Expand(Floats before, uint32_t lanes, const float* from) {
#if defined(__AVX512F__)
  return (Floats)_mm512_mask_expand_ps((__m512)before, static_cast<__mmask16>(lanes),
                                       (__m512)LoadFloats(from));
#else
  const uint64_t bytes = _pdep_u64(lanes, 0x0101010101010101) * 0xFF;
  const auto index = static_cast<int64_t>(_pdep_u64(0x0706050403020100, bytes));
  const __m256 moved =
      _mm256_permutevar8x32_ps((__m256)LoadFloats(from), _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(index)));
  const __m256i mask = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
  return (Floats)_mm256_blendv_ps((__m256)before, moved, (__m256)mask);
#endif
}

// Whole vectors, and the number of their ids.
__attribute__((always_inline)) inline size_t InterleaveVectors(const Table& table, const Span& span,
                                                               ee_type type, unsigned char* to, size_t i,
                                                               Counts* next) {
  const size_t size = SizeOf(type);
  const unsigned char* const map = table.map;
  Counts at = *next;
  for (; i + kLanes <= span.rows; i += kLanes) {
    const Lanes lanes(map, span.first + i);
    Floats some{};
#pragma GCC unroll 3
    for (size_t t = 0; t < kTiers; ++t) {
      const uint32_t own = lanes.Of(t);
      some = Expand(some, own, span.from + at.Of(t));
      at.Add(t, Ones(own));
    }
    StoreAs(some, type, to + i * size);
  }
  *next = at;
  return i;
}

#endif

// The ids i .. end-1 of a span, one by one: with vectors, few at its ends.
__attribute__((noinline, cold)) inline void InterleaveSome(const Table& table, const Span& span, ee_type type,
                                                           unsigned char* to, size_t i, size_t end,
                                                           Counts* next) {
  for (; i < end; ++i) {
    const size_t tier = TierOf(table.map, span.first + i);
    dpq::StoreLogit(span.from[next->Of(tier)], {to, type}, i);
    next->Add(tier, 1);
  }
}

inline void Interleave(const Table& table, const Span& span, ee_type type, unsigned char* to) {
  Counts next = span.begins;
  size_t i = 0;
#if defined(__AVX2__)
  const size_t before = -span.first % kLanes;
  if (before < span.rows) {
    InterleaveSome(table, span, type, to, 0, before, &next);
    i = InterleaveVectors(table, span, type, to, before, &next);
  }
#endif
  InterleaveSome(table, span, type, to, i, span.rows, &next);
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_INTERLEAVE_H_
