// Ids by tier. The place of an id has no branch on its tier: the map of its block is compared with the tier,
// and the equal codes before the id are counted.
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_

#include "kernels/simd.h"
#include "kernels/tiered/loops.h"
#include "kernels/tiered/map.h"

namespace edge_embed::tiered {
namespace {

// Rows of `tier` at positions before `position` of a block of the map.
#if defined(__AVX2__)
__attribute__((always_inline)) inline size_t RowsBefore(const unsigned char* block, size_t position,
                                                        size_t tier) {
  const __m256i starts = _mm256_setr_epi64x(0, 64, 128, 192);
  const auto equal = [=](size_t part) __attribute__((always_inline)) {
    const auto bits = static_cast<int64_t>(position * kCodeBits) - static_cast<int64_t>(part * 256);
    // A shift by 64 or more is zero, and negative numbers become zero in both halves.
    const __m256i left = _mm256_max_epi32(_mm256_sub_epi64(_mm256_set1_epi64x(bits), starts), __m256i{});
    const __m256i after = _mm256_sllv_epi64(_mm256_set1_epi64x(-1), left);
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(block + part * 32));
    const __m256i same = _mm256_xor_si256(codes, _mm256_set1_epi64x(static_cast<int64_t>(Flip(tier))));
    const __m256i both = _mm256_and_si256(same, _mm256_srli_epi64(same, 1));
    return _mm256_andnot_si256(after, _mm256_and_si256(both, _mm256_set1_epi8(0x55)));
  };
  const __m256i ones = _mm256_add_epi64(equal(0), _mm256_slli_epi64(equal(1), 1));
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
__attribute__((always_inline)) inline size_t RowsBefore(const unsigned char* block, size_t position,
                                                        size_t tier) {
  constexpr uint64_t kAll = ~uint64_t{0};
  static constexpr uint64_t kMasks[2 * kWords] = {kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll};
  const size_t bits = position * kCodeBits, word = bits / kWordBits;
  const uint64_t* const masks = kMasks + kWords - word;
  const auto equal = [=](size_t k)
                         __attribute__((always_inline)) { return Equal(Load<uint64_t>(block, k), tier); };
  uint64_t rows = Ones(equal(word) & ((uint64_t{1} << bits % kWordBits) - 1));
  for (size_t k = 0; k < kWords; k += 2)
    rows += Ones((equal(k) & masks[k]) | (equal(k + 1) & masks[k + 1]) << 1);
  return rows;
}
#endif

// Finds the place of an id in range. Its row is at least rows() of its tier if the table lacks it.
template <bool kMapped>
class Places {
 public:
  explicit Places(const Table& table) : map_(table.map), ranks_(table.ranks) {
    for (size_t t = 0, start = 0; t < kTiers; start += rows_[t], ++t) {
      rows_[t] = static_cast<size_t>(table.tiers[t].num_embeddings);
      starts_[t] = start;
    }
  }

  __attribute__((always_inline)) Place Of(size_t id) const {
    if constexpr (!kMapped) {
      const size_t tier = size_t{id >= starts_[1]} + size_t{id >= starts_[2]};
      return {tier, id - starts_[tier]};
    }
    const size_t block = id / kBlockRows, tier = TierOf(map_, id), known = tier < kTiers ? tier : 0;
    const int64_t rank = Load<int32_t>(ranks_, block * kTiers + known);  // any number in a damaged table
    return {tier, static_cast<size_t>(rank) + RowsBefore(map_ + block * kBlockBytes, id % kBlockRows, tier)};
  }

  size_t rows(size_t tier) const { return rows_[tier]; }

  void Prefetch(size_t id) const {
    if constexpr (!kMapped) return;
    __builtin_prefetch(map_ + id / kBlockRows * kBlockBytes);
    __builtin_prefetch(ranks_ + id / kBlockRows * (kTiers * sizeof(int32_t)));
  }

 private:
  const unsigned char* const map_;
  const unsigned char* const ranks_;
  size_t rows_[kTiers + 1] = {}, starts_[kTiers];  // a tier that does not exist has no rows
};

// Maps up to this size stay in a cache.
constexpr size_t kCachedBytes = 256 * 1024;

template <bool kMapped>
__attribute__((noinline)) void FindIn(const Table& table, const Ids& ids, size_t begin, size_t end,
                                      Lists* lists) {
  const Places<kMapped> places(table);
  const uint64_t num_rows = static_cast<uint64_t>(table.num_embeddings);
  for (size_t i = begin; table.map_bytes > kCachedBytes && i < end; ++i) {
    const auto id = static_cast<uint64_t>(ids.At(i));
    if (id < num_rows) places.Prefetch(id);
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
    const Place place = places.Of(id);
    if (place.row >= places.rows(place.tier)) {
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
  if (table.map == nullptr) return FindIn<false>(table, ids, begin, end, lists);
  FindIn<true>(table, ids, begin, end, lists);
}

inline size_t CountRows(const unsigned char* block, size_t tier, size_t begin, size_t end) {
  size_t rows = 0;
  for (size_t bit = begin * kCodeBits, last = end * kCodeBits; bit < last;
       bit += kWordBits - bit % kWordBits) {
    uint64_t equal = Equal(Load<uint64_t>(block, bit / kWordBits), tier) >> bit % kWordBits;
    if (last - bit < kWordBits) equal &= (uint64_t{1} << (last - bit)) - 1;
    rows += Ones(equal);
  }
  return rows;
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
