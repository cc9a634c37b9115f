// rows[i, j*s : (j+1)*s] = values[j, code_j(ids[i])]
//
// Rows are computed in blocks: while a block is computed, the codes of the next one are prefetched.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_GATHER_H_

#include "kernels/dpq/fast_rows.h"
#include "kernels/dpq/fast_values.h"

namespace edge_embed::dpq {
namespace {

constexpr uint16_t kNumbers[kBlockRows] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                           16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

constexpr const uint16_t* kInOrder = kHasPlaces ? kNumbers : nullptr;

// Destination of the rows of a block: row i is at places[i] * step.
struct RowOutput {
  unsigned char* rows;
  size_t step;  // bytes from one row to the next
  bool widen;   // values are float16 or int8, and rows are float32
  const uint16_t* places = kInOrder;
};

// Computes the rows ids[0] .. ids[count-1] of the table.
__attribute__((noinline)) void WriteBlock(const Table& table, const Layout& layout, RowMaker* make,
                                          Stage& stage, const size_t* ids, size_t count,
                                          const RowOutput& output) {
  const size_t columns = layout.groups * layout.width;
  unsigned char* out = output.rows;
  // Narrow values are copied to the end of their row and widened in place.
  const size_t before = output.widen ? Narrower(table) * columns : 0;
  const size_t at_once = Stage::GroupsAtOnce(layout);
  for (size_t first = 0; first < layout.groups; first += at_once) {
    const size_t left = layout.groups - first, groups = left < at_once ? left : at_once;
    stage.Read(layout, ids, count, first, groups);
    make(layout, {stage, first, groups}, count, out + before + first * layout.vector_bytes, output.step,
         output.places);
  }
  for (size_t i = 0; i < count; ++i) {
    unsigned char* const row = out + PlaceOf(output.places, i) * output.step;
    if (output.widen) WidenRow(table, layout, row);
    if (static_cast<int64_t>(ids[i]) == table.padding_idx) __builtin_memset(row, 0, output.step);
  }
}

inline Size GatherScratch(const Table&) { return 0; }

inline ee_status Gather(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                        double*, size_t* bad_position) {
  if (rows.type != table.value_type && rows.type != EE_FLOAT32) return EE_BAD_TYPE;
  const Layout layout(table);
  RowMaker* const make = ChooseRowMaker(layout);
  const size_t row_bytes = layout.groups * layout.width * SizeOf(rows.type);
  Stage stage;
  size_t lists[2][kBlockRows];
  size_t* here = lists[0];
  size_t* ahead = lists[1];
  const auto end_of = [end](size_t first) { return end - first < kBlockRows ? end : first + kBlockRows; };
  size_t count = TakeIds(table, ids, begin, end_of(begin), here);
  PrefetchCodes(layout, here, count);
  for (size_t first = begin; first < end;) {
    const size_t next = end_of(first);
    const size_t next_count = TakeIds(table, ids, next, end_of(next), ahead);
    PrefetchCodes(layout, ahead, next_count);
    const bool in_order = !kHasPlaces || rows.places == nullptr;
    WriteBlock(table, layout, make, stage, here, count,
               {static_cast<unsigned char*>(rows.data) + (in_order ? first * row_bytes : 0), row_bytes,
                rows.type != table.value_type, in_order ? kInOrder : rows.places + first});
    if (first + count < next) {
      *bad_position = first + count;
      return EE_ID_OUT_OF_RANGE;
    }
    size_t* const done = here;
    here = ahead;
    ahead = done;
    first = next;
    count = next_count;
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_GATHER_H_
