// rows[i, :] = row(ids[i]), in blocks of ids.
//
// If many ids of a block share all digits except the last, as the frequent words of a text do, these ids are
// computed one after another. A chain then keeps its states. With two cores, also after merge.h, the state is
// only a slice. If slices are large, ids of the same slice are computed one after another, so that it is read
// once.
//
// Slices of the next row are not prefetched: it was never faster, neither for cores that stay in the cache
// nor for those of merge.h.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_TT_FAST_GATHER_H_

#include "kernels/tt/fast_chain.h"

namespace edge_embed::tt {
namespace {

inline Size GatherScratch(const Table& table) {
  return AlignedDoubles(Chain::ScratchFloats(table) + Size(Columns(table)) + kLineFloats);
}

// WebAssembly has no prepacked cores (merge.h), which save the same products elsewhere. Ids of a long block
// share more of them.
#ifdef __wasm__
constexpr size_t kBlockIds = 4096, kLists = 1024;
#else
constexpr size_t kBlockIds = 256, kLists = 128;
#endif

// The ids of a block in the order in which their rows are computed.
struct Order {
  size_t count = 0;  // number of ids before the first invalid one
  uint16_t positions[kBlockIds];
};

// Groups positions with equal key(position). Keys that share a list are mixed, which only costs time. The
// order within a list stays.
template <class Key>
__attribute__((always_inline)) inline void Group(const Key& key, Order* order) {
  uint16_t ends[kLists] = {}, grouped[kBlockIds];
  for (size_t k = 0; k < order->count; ++k) ++ends[key(order->positions[k]) % kLists];
  for (size_t list = 1; list < kLists; ++list)
    ends[list] = static_cast<uint16_t>(ends[list] + ends[list - 1]);
  for (size_t k = order->count; k-- > 0;) {
    grouped[--ends[key(order->positions[k]) % kLists]] = order->positions[k];
  }
  __builtin_memcpy(order->positions, grouped, order->count * sizeof(grouped[0]));
}

// The core before the last one has the largest slices, and the prefix selects one. If they exceed this number
// of bytes, they do not stay in the processor's own cache. Reading them then costs more than all
// multiplications.
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
  } else if (shared <= count / 4) {  // consecutive output rows are faster
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
