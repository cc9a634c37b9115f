// Sums of bytes for words of sixteen rows: an instruction looks up four nibbles of each among 64 bytes, and
// another adds the four (AVX-512 with VBMI and VNNI).
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_

#include "kernels/dpq/fast_bound.h"

namespace edge_embed::dpq {
namespace {

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)

// Rows that are scanned at once, and states that share the reading of their codes: the tables of these are to
// fit the first cache, their sums the registers.
constexpr size_t kScannedRows = kLanes;
constexpr size_t kScannedStates = 8;
constexpr uint64_t kMostGroups = 1 << 16;  // of which a float holds the sum of bytes

struct Sums {
  Words low{}, high{};  // of the low and the high nibbles

  Floats Upper(const Bound& bound) const {
    return __builtin_convertvector(low + high, Floats) * bound.scale + bound.rest;
  }
  void Uppers(const Bound& bound, float* uppers) const { StoreFloats(Upper(bound), uppers); }
};

// Whether a bound is above a threshold, which may be what nothing compares with.
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

// Adds the bytes of `rows` rows, for states whose bytes are `of_state` from each other. An index is a nibble
// and which of four it is.
template <size_t kCount>
__attribute__((always_inline)) inline void AddBytes(const Layout& layout, const unsigned char* codes,
                                                    size_t rows, const unsigned char* bytes, size_t of_state,
                                                    Sums (&sums)[kCount]) {
  constexpr uint32_t kNibbles = 0x0F0F0F0F, kWhich = 0x30201000;
  ForWords<kCount == 1>(layout, codes, rows, [&](Words word) __attribute__((always_inline)) {
    const Words low = (word & kNibbles) | kWhich, high = (word >> kPermutedBits & kNibbles) | kWhich;
    for (size_t s = 0; s < kCount; ++s) {
      sums[s].low = AddFour(low, bytes + s * of_state, sums[s].low);
      sums[s].high = AddFour(high, bytes + s * of_state + 4 * kCodesOfGroup, sums[s].high);
    }
    bytes += kCodesAtOnce * kCodesOfGroup;
  });
}

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_WORDS_H_
