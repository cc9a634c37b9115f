// Sums of bytes for words of sixteen rows: an instruction looks up four nibbles of each word in 64 bytes, and
// another one adds the four (AVX-512 with VBMI and VNNI).
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_

#include "kernels/dpq/fast_bound.h"

namespace edge_embed::dpq {
namespace {

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)

// Rows that are scanned at once, and states that share one read of their codes. The tables of these states
// must fit the first-level cache, and their sums the registers.
constexpr size_t kScannedRows = kLanes;
constexpr size_t kScannedStates = 8;
constexpr uint64_t kMostGroups = 1 << 16;  // a float holds the sum of so many bytes

struct Sums {
  Words all;

  Floats Upper(const Bound& bound) const {
    return __builtin_convertvector(all, Floats) * bound.scale + bound.rest;
  }
  void Uppers(const Bound& bound, float* uppers) const { StoreFloats(Upper(bound), uppers); }
};

// True if a bound exceeds a threshold, which may be NaN.
class Filter {
 public:
  Filter() = default;
  Filter(const Bound& bound, float threshold) : bound_(bound), threshold_(Broadcast(threshold)) {}

  bool Passes(const Sums& sums) const {
    return _mm512_cmp_ps_mask((__m512)sums.Upper(bound_), (__m512)threshold_, _CMP_NLE_UQ) != 0;
  }

 private:
  Bound bound_;
  Floats threshold_;
};

__attribute__((always_inline)) inline Words AddFour(Words index, const unsigned char* bytes, Words sums) {
  const __m512i found =
      _mm512_maskz_permutexvar_epi8(~uint64_t{0}, (__m512i)index, (__m512i)LoadFloats(bytes));
  return (Words)_mm512_maskz_dpbusd_epi32(0xFFFF, (__m512i)sums, found, _mm512_set1_epi8(1));
}

// Adds the bytes of `rows` rows, for states whose bytes are `of_state` apart. An index is a nibble and its
// number among four.
template <size_t kCount>
__attribute__((always_inline)) inline void AddBytes(const Layout& layout, size_t first, size_t rows,
                                                    const unsigned char* bytes, size_t of_state,
                                                    Sums (&sums)[kCount]) {
  constexpr uint32_t kNibbles = 0x0F0F0F0F, kWhich = 0x30201000;
  Words lows[kCount] = {}, highs[kCount] = {};  // sums of the low and of the high nibbles
  ForWords<kCount == 1>(layout, first, rows, [&](Words word) __attribute__((always_inline)) {
    const Words low = (word & kNibbles) | kWhich, high = (word >> kBlockedBits & kNibbles) | kWhich;
    for (size_t s = 0; s < kCount; ++s) {
      lows[s] = AddFour(low, bytes + s * of_state, lows[s]);
      highs[s] = AddFour(high, bytes + s * of_state + 4 * kCodesOfGroup, highs[s]);
    }
    bytes += kCodesAtOnce * kCodesOfGroup;
  });
  for (size_t s = 0; s < kCount; ++s) sums[s].all = lows[s] + highs[s];
}

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_
