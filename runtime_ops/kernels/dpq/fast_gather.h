// rows[i, j*s : (j+1)*s] = values[j, code_j(ids[i])]
//
// In blocks of rows: the codes of the next block are on their way from memory while this block is made.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_GATHER_H_

#include "kernels/dpq/fast_rows.h"

namespace edge_embed::dpq {
namespace {

// Halves at `halves` as floats at `out`, which may end where they end: no float is written over a half that
// is still to be read. ToFloat and not the processor's instruction, which changes what kind of NaN it is.
inline void WidenBits(const unsigned char* halves, size_t count, unsigned char* out) {
  constexpr size_t kAtOnce = 8;
  for (size_t k = 0; k < count; k += kAtOnce) {
    const size_t some = count - k;
    Half narrow[kAtOnce] = {};
    float wide[kAtOnce];
    unsigned char* const from = reinterpret_cast<unsigned char*>(narrow);
    unsigned char* const to = reinterpret_cast<unsigned char*>(wide);
    if (some >= kAtOnce) {
      CopyPiece<sizeof(narrow)>(halves + 2 * k, from);
    } else {
      CopyRest(halves + 2 * k, 2 * some, from);
    }
    for (size_t i = 0; i < kAtOnce; ++i) wide[i] = ToFloat(narrow[i]);
    if (some >= kAtOnce) {
      CopyPiece<sizeof(wide)>(to, out + 4 * k);
    } else {
      CopyRest(to, 4 * some, out + 4 * k);
    }
  }
}

// Where the rows of a block go.
struct RowOutput {
  unsigned char* rows;
  size_t step;  // bytes from one row to the next
  bool widen;   // the values are halves, the rows are floats
};

// The rows ids[0] .. ids[count-1] of the table.
__attribute__((noinline)) void WriteBlock(const Table& table, const Layout& layout, RowMaker* make,
                                          Stage& stage, const size_t* ids, size_t count,
                                          const RowOutput& output) {
  const size_t columns = layout.groups * layout.width;
  unsigned char* out = output.rows;
  // Halves go into the second half of their row, to be widened in place.
  unsigned char* made = output.widen ? out + columns * 2 : out;
  const size_t at_once = Stage::GroupsAtOnce(layout);
  for (size_t first = 0; first < layout.groups; first += at_once) {
    const size_t left = layout.groups - first, groups = left < at_once ? left : at_once;
    stage.Read(layout, ids, count, first, groups);
    make(layout, {stage, first, groups}, count, made + first * layout.vector_bytes, output.step);
  }
  for (size_t i = 0; i < count; ++i, out += output.step) {
    if (output.widen) WidenBits(out + columns * 2, columns, out);
    if (static_cast<int64_t>(ids[i]) == table.padding_idx) __builtin_memset(out, 0, output.step);
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
    WriteBlock(table, layout, make, stage, here, count,
               {static_cast<unsigned char*>(rows.data) + first * row_bytes, row_bytes,
                rows.type != table.value_type});
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
