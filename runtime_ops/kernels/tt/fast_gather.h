// rows[i, :] = row(ids[i]), in blocks of ids. Where many of a block share all digits but the last with
// another, as the frequent words of a text do, those follow one another, so that a chain keeps its states; of
// two cores, which may be what merge.h makes, the state is a mere slice.
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

// Ids of a prefix, all digits but the last, become a list. Lists of several prefixes may be one: that costs
// time only.
__attribute__((noinline)) void FindOrder(const Table& table, const Ids& ids, size_t begin, size_t end,
                                         Order* order) {
  constexpr size_t kLists = 128;
  uint16_t lasts[kLists] = {};  // of each list, counted from 1; 0: there is none
  uint16_t before[kBlockIds];   // the one before it in its list
  size_t prefixes[kBlockIds];
  const size_t radix = At(table.cores[At(table.num_cores) - 1].rows);
  size_t shared = 0, count = 0;
  for (; count < kBlockIds && begin + count < end; ++count) {
    const int64_t id = ids.At(begin + count);
    if (id < 0 || id >= table.num_embeddings) break;
    prefixes[count] = At(id) / radix;
    uint16_t& last = lasts[prefixes[count] % kLists];
    if (last != 0 && prefixes[last - 1] == prefixes[count]) ++shared;
    before[count] = last;
    last = static_cast<uint16_t>(count + 1);
    order->positions[count] = static_cast<uint16_t>(count);
  }
  order->count = count;
  // Rows that are written one after the other gain more.
  if (shared <= count / 4 || table.num_cores == 2) return;
  size_t k = 0;
  for (size_t next : lasts) {
    for (; next != 0; next = before[next - 1]) order->positions[k++] = static_cast<uint16_t>(next - 1);
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
