// rows[i] = row_scales[row_scale_codes[ids[i]]] * plain_row(ids[i])[: d]
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_GATHER_H_

#include "kernels/dpq_scaled/fast_columnwise.h"

namespace edge_embed::dpq_scaled {
namespace {

__attribute__((noinline)) inline Size GatherScratch(const Table& table) {
  return RowMaker::MemoryDoubles(table) + Max(RowDoubles(table, kMadeAtOnce / 2), CodebookDoubles(table));
}

// Writes `count` rows, the first of which has the index `first`.
__attribute__((noinline)) inline void WriteRows(RowMaker* maker, const size_t* ids, const float* scales,
                                                size_t count, float* made, const Output& rows, size_t first) {
  const size_t row_bytes = maker->columns() * SizeOf(rows.type);
  for (size_t i = 0; i < count; i += kMadeAtOnce) {
    const size_t left = count - i, some = left < kMadeAtOnce ? left : kMadeAtOnce;
    auto* const from = reinterpret_cast<unsigned char*>(made);
    if (rows.type == EE_FLOAT32) {
      maker->Make(ids + i, scales + i, some, made);
    } else {
      maker->MakeNarrow(ids + i, some, from);
    }
    for (size_t row = 0; row < some; ++row) {
      dpq::CopyRest(from + row * maker->step() * sizeof(float), row_bytes,
                    RowAt(rows, first + i + row, row_bytes));
    }
  }
}

// The rows of a window, the first of which has the index `first`.
__attribute__((noinline)) inline void WriteWindow(const RowMaker& maker, const Window& window,
                                                  const Output& rows, size_t first) {
  const size_t columns = maker.columns();
  WithNumbers(maker.decoder(), [&](const auto& numbers) __attribute__((always_inline)) {
    for (size_t i = 0; i < window.count; ++i) {
      unsigned char* const to = RowAt(rows, first + i, columns * sizeof(float));
      if (window.counted[i] != 0) {
        WriteNumbers(numbers, window.codes[i], window.scales[i], columns, to);
      } else {
        __builtin_memset(to, 0, columns * sizeof(float));
      }
    }
  });
}

// Rows whose codes are read in place: write(window, first) writes those of a window, the first of which has
// the index `first`.
template <class Write>
ee_status GatherWindows(const Table& table, const RowMaker& maker, const Ids& ids, size_t begin, size_t end,
                        size_t* bad_position, const Write& write) {
  Window window;
  for (size_t first = begin; first < end; first += window.count) {
    TakeWindow(table, maker.layout(), maker.codes(), ids, nullptr, first,
               end - first < kWindowRows ? end : first + kWindowRows, &window);
    write(window, first);
    if (window.status == EE_OK) continue;
    *bad_position = first + window.count;
    return window.status;
  }
  return EE_OK;
}

__attribute__((noinline)) inline ee_status Gather(const Table& table, const Ids& ids, size_t begin,
                                                  size_t end, const Output& rows, double* scratch,
                                                  size_t* bad_position) {
  if (rows.type != EE_FLOAT32 && (table.has_scales() || rows.type != table.value_type)) return EE_BAD_TYPE;
  RowMaker maker(table, scratch);
  float* const made = reinterpret_cast<float*>(scratch + RowMaker::MemoryDoubles(table).saturated());
  if (maker.decoder().fits() && rows.type == EE_FLOAT32) {
    return GatherWindows(
        table, maker, ids, begin, end, bad_position,
        [&](const Window& window, size_t first) { WriteWindow(maker, window, rows, first); });
  }
#if defined(__AVX512VBMI__)
  if (IsColumnwise(table) && IsFloat(rows.type)) {
    ColumnRows made_rows(table, maker.layout(), rows.type == EE_FLOAT16, false,
                         scratch + RowMaker::MemoryDoubles(table).saturated());
    return GatherWindows(table, maker, ids, begin, end, bad_position,
                         [&](const Window& window, size_t first) {
                           made_rows.Copy(window, maker.columns(), table.has_scales(), rows, first,
                                          maker.columns() * SizeOf(rows.type));
                         });
  }
#endif
  size_t lists[2][dpq::kBlockRows];
  size_t* here = lists[0];
  size_t* ahead = lists[1];
  const auto end_of = [end](size_t first) {
    return end - first < dpq::kBlockRows ? end : first + dpq::kBlockRows;
  };
  size_t count = dpq::TakeIds(table, ids, begin, end_of(begin), here);
  PrefetchRows(table, maker.layout(), here, count);
  for (size_t first = begin; first < end;) {
    const size_t next = end_of(first);
    const size_t next_count = dpq::TakeIds(table, ids, next, end_of(next), ahead);
    PrefetchRows(table, maker.layout(), ahead, next_count);
    float scales[dpq::kBlockRows];
    const size_t sound = TakeScales(table, here, count, scales);
    WriteRows(&maker, here, scales, sound, made, rows, first);
    if (first + sound < next) {
      *bad_position = first + sound;
      return sound < count ? EE_BAD_ROW_SCALE_CODE : EE_ID_OUT_OF_RANGE;
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
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_GATHER_H_
