// rows[i, :] = row(ids[i]), in blocks of ids. Where many of a block share all digits but the last with
// another, as the frequent words of a text do, those follow one another, so that a chain keeps its states; of
// two cores, which may be what merge.h makes, the state is a mere slice. Where slices are large, ids of the
// same slice follow one another, so that it is read once.
// Slices of the next row are not asked for early: it was never faster, neither of cores that stay in cache
// nor of those that merge.h makes.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_

#include "kernels/tt/fast_chain.h"

namespace edge_embed::tt {
namespace {

inline Size GatherScratch(const Table& table) {
  return AlignedDoubles(Chain::ScratchFloats(table) + Size(Columns(table)) + kLineFloats);
}

constexpr size_t kBlockIds = 256;

// The ids of a block in the order in which their rows are made.
struct Order {
  size_t count = 0;  // up to the first that is no row
  uint16_t positions[kBlockIds];
};

// Brings positions together whose key(position) is the same, but for those of keys that share a list: that
// costs time only. Within a list the order stays.
template <class Key>
__attribute__((always_inline)) inline void Group(const Key& key, Order* order) {
  constexpr size_t kLists = 128;
  uint16_t ends[kLists] = {}, grouped[kBlockIds];
  for (size_t k = 0; k < order->count; ++k) ++ends[key(order->positions[k]) % kLists];
  for (size_t list = 1; list < kLists; ++list)
    ends[list] = static_cast<uint16_t>(ends[list] + ends[list - 1]);
  for (size_t k = order->count; k-- > 0;) {
    grouped[--ends[key(order->positions[k]) % kLists]] = order->positions[k];
  }
  __builtin_memcpy(order->positions, grouped, order->count * sizeof(grouped[0]));
}

// Slices of the core before the last one, which the prefix chooses, are the largest. More bytes of them than
// this do not stay in a processor's own cache, and reading them takes longer than all multiplications.
constexpr size_t kCachedBytes = 1 << 20;

__attribute__((noinline)) void FindOrder(const Table& table, const Ids& ids, size_t begin, size_t end,
                                         Order* order) {
  const size_t last = At(table.num_cores) - 1;
  size_t prefixes[kBlockIds], count = 0;
  for (; count < kBlockIds && begin + count < end; ++count) {
    const int64_t id = ids.At(begin + count);
    if (id < 0 || id >= table.num_embeddings) break;
    prefixes[count] = At(id) / At(table.cores[last].rows);
    order->positions[count] = static_cast<uint16_t>(count);
  }
  order->count = count;
  if (last == 1) return;
  const Core& before = table.cores[last - 1];
  const auto prefix = [&](size_t position) { return prefixes[position]; };
  const auto digit = [&](size_t position) { return prefixes[position] % At(before.rows); };
  Group(prefix, order);
  size_t shared = 0;
  for (size_t k = 1; k < count; ++k) {
    shared += prefixes[order->positions[k]] == prefixes[order->positions[k - 1]];
  }
  if (before.bytes > kCachedBytes) {
    Group(digit, order);
  } else if (shared <= count / 4) {  // rows that are written one after the other gain more
    for (size_t k = 0; k < count; ++k) order->positions[k] = static_cast<uint16_t>(k);
  }
}

inline ee_status GatherFast(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                            double* scratch, size_t* bad_position) {
  float* row = Aligned(scratch);
  const size_t columns = Columns(table);
  Chain chain(table, row + WholeLines(columns));
  unsigned char* out = static_cast<unsigned char*>(rows.data);
  Order order;
  for (; begin < end; begin += order.count) {
    FindOrder(table, ids, begin, end, &order);
    if (order.count == 0) {
      *bad_position = begin;
      return EE_ID_OUT_OF_RANGE;
    }
    for (size_t k = 0; k < order.count; ++k) {
      const size_t i = begin + order.positions[k];
      const int64_t id = ids.At(i);
      if (rows.type == EE_FLOAT32) {
        ReadChecked(table, chain, id, out + i * columns * sizeof(float));
      } else {
        ReadChecked(table, chain, id, Bytes(row));
        NarrowNumbers(row, columns, rows, i * columns);
      }
    }
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_
