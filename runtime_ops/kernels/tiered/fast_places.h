// Ids by tier, and copies of rows in the order of ids.
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_

#include "kernels/dpq/fast_codes.h"
#include "kernels/tiered/loops.h"
#include "kernels/tiered/map.h"

namespace edge_embed::tiered {
namespace {

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

inline void CopyRows(const float* const* rows, size_t count, size_t columns, void* out) {
  const size_t bytes = columns * sizeof(float);
  auto* to = static_cast<unsigned char*>(out);
  for (size_t i = 0; i < count; ++i, to += bytes) {
    const auto* const row = reinterpret_cast<const unsigned char*>(rows[i]);
    if (bytes >= kVectorBytes) {
      dpq::CopyMany<kVectorBytes>(row, bytes, to);
    } else {
      dpq::CopyRest(row, bytes, to);
    }
  }
}

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_PLACES_H_
