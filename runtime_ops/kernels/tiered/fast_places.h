// Ids by tier. The place of an id has no branch on its tier: the map of its block is compared with the tier, and
// the equal codes before the id are counted.
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_

#include "kernels/simd.h"
#include "kernels/tiered/loops.h"
#include "kernels/tiered/map.h"

namespace edge_embed::tiered {
namespace {

// The map of a table with codes of kBits bits, or with 0 bits a table that has none.
template <size_t kBits>
class TierMap {
 public:
  static constexpr size_t kWords = kBlockRows * kBits / kWordBits;

  explicit TierMap(const Table& table)
      : map_(table.map), ranks_(table.ranks), tiers_(static_cast<size_t>(table.num_tiers)) {
    size_t start = 0;
    for (size_t t = 0; t < EE_MAX_TIERS; ++t) {
      rows_[t] = static_cast<size_t>(table.tiers[t].num_embeddings);
      starts_[t] = start;
      start += rows_[t];
    }
  }

  // The place of an id in range. Its row is at least rows() of its tier if the table lacks it.
  __attribute__((always_inline)) Place Of(size_t id) const {
    if constexpr (kBits == 0) {
      size_t tier = 0;
      for (size_t t = 1; t < EE_MAX_TIERS; ++t) tier += id >= starts_[t];
      return {tier, id - starts_[tier]};
    } else {
      const unsigned char* const block = map_ + id / kBlockRows * (kWords * sizeof(uint64_t));
      const size_t bit = id % kBlockRows * kBits, tier = TierOf(map_, kBits, id);
      return {tier, Rank(id / kBlockRows, tier) + Before(block, bit, tier)};
    }
  }

  void Prefetch(size_t id) const {
    if constexpr (kBits > 0) {
      __builtin_prefetch(map_ + id / kBlockRows * (kWords * sizeof(uint64_t)));
      __builtin_prefetch(ranks_ + id / kBlockRows * tiers_ * sizeof(int32_t));
    }
  }

  size_t rows(size_t tier) const { return rows_[tier]; }

 private:
#if defined(__AVX2__)
  // Codes that equal `tier` in the first `bits` bits of a block, four words at a time.
  __attribute__((always_inline)) static size_t Before(const unsigned char* block, size_t bits, size_t tier) {
    const __m256i ends = _mm256_sub_epi64(_mm256_set1_epi64x(static_cast<int64_t>(bits)), _mm256_setr_epi64x(0, 64, 128, 192));
    const auto equal = [=](size_t part) __attribute__((always_inline)) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(block + part * 32));
      const __m256i left = _mm256_sub_epi64(ends, _mm256_set1_epi64x(static_cast<int64_t>(part) * 256));
      // A shift by 64 or more is zero, and negative numbers become zero in both halves.
      const __m256i after = _mm256_sllv_epi64(_mm256_set1_epi64x(-1), _mm256_max_epi32(left, __m256i{}));
      const __m256i same = _mm256_xor_si256(codes, _mm256_set1_epi64x(static_cast<int64_t>(Flip(tier, kBits))));
      if constexpr (kBits == 1) return _mm256_andnot_si256(after, same);
      const __m256i both = _mm256_and_si256(same, _mm256_srli_epi64(same, 1));
      return _mm256_andnot_si256(after, _mm256_and_si256(both, _mm256_set1_epi8(0x55)));
    };
    __m256i ones = equal(0);
    if constexpr (kBits == 2) ones = _mm256_add_epi64(ones, _mm256_slli_epi64(equal(1), 1));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i bytes =
        _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256(ones, nibble)),
                        _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi64(ones, 4), nibble)));
    const __m256i fours = _mm256_sad_epu8(bytes, __m256i{});
    const __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    return static_cast<size_t>(_mm_cvtsi128_si64(pair)) + static_cast<size_t>(_mm_extract_epi64(pair, 1));
  }
#else
  // Codes that equal `tier` in the first `bits` bits of a block.
  __attribute__((always_inline)) static size_t Before(const unsigned char* block, size_t bits, size_t tier) {
    constexpr size_t kMostWords = 8;
    static constexpr uint64_t kMasks[2 * kMostWords] = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
    const size_t word = bits / kWordBits;
    const uint64_t* const masks = kMasks + kMostWords - word;
    const auto equal = [=](size_t k) __attribute__((always_inline)) {
      return Equal(Load<uint64_t>(block, k), tier, kBits);
    };
    uint64_t rows = Ones(equal(word) & ((uint64_t{1} << bits % kWordBits) - 1));
    for (size_t k = 0; k < kWords; k += kBits) {
      uint64_t ones = equal(k) & masks[k];
      if constexpr (kBits == 2) ones |= (equal(k + 1) & masks[k + 1]) << 1;
      rows += Ones(ones);
    }
    return rows;
  }
#endif

  // Rows of a tier before a block. It may be any number, and that of a tier that does not exist is not used.
  __attribute__((always_inline)) size_t Rank(size_t block, size_t tier) const {
    const size_t at = block * tiers_ + (tier < tiers_ ? tier : 0);
    return static_cast<size_t>(int64_t{Load<int32_t>(ranks_, at)});
  }

  const unsigned char* const map_;
  const unsigned char* const ranks_;
  const size_t tiers_;
  size_t rows_[EE_MAX_TIERS], starts_[EE_MAX_TIERS];
};

// Maps up to this size stay in a cache.
constexpr size_t kCachedBytes = 256 * 1024;

template <size_t kBits>
__attribute__((noinline)) void FindIn(const Table& table, const Ids& ids, size_t begin, size_t end, Lists* lists) {
  const TierMap<kBits> map(table);
  const uint64_t num_rows = static_cast<uint64_t>(table.num_embeddings);
  for (size_t i = begin; table.map_bytes > kCachedBytes && i < end; ++i) {
    const auto id = static_cast<uint64_t>(ids.At(i));
    if (id < num_rows) map.Prefetch(id);
  }
  Counts counts;
  ee_status status = EE_OK;
  size_t i = begin;
  for (; i < end; ++i) {
    const auto id = static_cast<uint64_t>(ids.At(i));
    if (id >= num_rows) {
      status = EE_ID_OUT_OF_RANGE;
      break;
    }
    const Place place = map.Of(id);
    if (place.row >= map.rows(place.tier)) {
      status = EE_BAD_TIER_PLACE;
      break;
    }
    const size_t at = counts.Of(place.tier);
    lists->rows[place.tier][at] = place.row;
    lists->positions[place.tier][at] = static_cast<uint16_t>(i - begin);
    counts.Add(place.tier, 1);
  }
  lists->counts = counts;
  lists->count = i - begin;
  lists->status = status;
}

inline void FindPlaces(const Table& table, const Ids& ids, size_t begin, size_t end, Lists* lists) {
  if (table.map == nullptr) return FindIn<0>(table, ids, begin, end, lists);
  if (table.map_bits() == 1) return FindIn<1>(table, ids, begin, end, lists);
  FindIn<2>(table, ids, begin, end, lists);
}

inline size_t CountRows(const unsigned char* block, size_t bits, size_t tier, size_t begin, size_t end) {
  size_t rows = 0;
  for (size_t bit = begin * bits, last = end * bits; bit < last;) {
    const size_t shift = bit % kWordBits, left = last - bit, some = kWordBits - shift;
    uint64_t equal = Equal(Load<uint64_t>(block, bit / kWordBits), tier, bits) >> shift;
    if (left < kWordBits) equal &= (uint64_t{1} << left) - 1;
    rows += Ones(equal);
    bit += some;
  }
  return rows;
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
