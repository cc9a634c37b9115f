// Rows with their scales as floats, some at a time: integers directly, all other rows as the plain kernels
// make them, multiplied afterwards.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_ROWS_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_ROWS_H_

#include "kernels/dpq/fast_gather.h"
#include "kernels/dpq_scaled/fast_integers.h"

namespace edge_embed::dpq_scaled {
namespace {

constexpr size_t kMadeAtOnce = 4;

// Reads the scales of some rows, 1 without scales and for the padding row. Returns the number of rows before
// the first one with a damaged scale code.
__attribute__((noinline)) inline size_t TakeScales(const Table& table, const size_t* ids, size_t count,
                                                   float* scales) {
  for (size_t i = 0; i < count; ++i) {
    scales[i] = 1;
    if (static_cast<int64_t>(ids[i]) == table.padding_idx) continue;
    if (!ReadScale(table, ids[i], scales + i)) return i;
  }
  return count;
}

// Prefetches the codes and the scale codes of some rows.
__attribute__((always_inline)) inline void PrefetchRows(const Table& table, const Layout& layout,
                                                        const size_t* ids, size_t count) {
  dpq::PrefetchCodes(layout, ids, count);
  for (size_t i = 0; table.has_scales() && i < count; ++i) __builtin_prefetch(table.row_scale_codes + ids[i]);
}

// Floats from one row to the next, for rows of all columns of the plain table.
inline size_t RowStep(const Table& table) { return RoundedUp(dpq::Columns(table.plain())); }

// Writes rows to places that are RowStep floats apart. What follows the columns of a row is undefined.
class RowMaker {
 public:
  // `memory` has MemoryDoubles.
  __attribute__((noinline)) RowMaker(const Table& table, double* memory)
      : table_(table),
        layout_(table.plain()),
        columns_(Columns(table)),
        step_(RowStep(table)),
        make_(dpq::ChooseRowMaker(layout_)),
        decoder_(table, layout_),
        codes_(layout_, static_cast<size_t>(table.num_embeddings), reinterpret_cast<unsigned char*>(memory)) {
  }

  static Size MemoryDoubles(const Table& table) { return CodeRows::MemoryDoubles(table); }

  const Layout& layout() const { return layout_; }
  const Decoder& decoder() const { return decoder_; }
  const CodeRows& codes() const { return codes_; }
  size_t columns() const { return columns_; }
  size_t step() const { return step_; }

  // Up to kMadeAtOnce rows.
  __attribute__((noinline)) void Make(const size_t* ids, const float* scales, size_t count, float* rows) {
    if (!decoder_.fits()) {
      dpq::WriteBlock(
          table_.plain(), layout_, make_, stage_, ids, count,
          {reinterpret_cast<unsigned char*>(rows), step_ * sizeof(float), table_.value_type != EE_FLOAT32});
    }
    for (size_t i = 0; i < count; ++i, rows += step_) {
      if (static_cast<int64_t>(ids[i]) == table_.padding_idx) {
        __builtin_memset(rows, 0, step_ * sizeof(float));
      } else if (decoder_.fits()) {
        WriteOne(codes_.At(ids[i]), scales[i], reinterpret_cast<unsigned char*>(rows));
      } else if (table_.has_scales()) {
        for (size_t k = 0; k < step_; k += kLanes) StoreFloats(LoadFloats(rows + k) * scales[i], rows + k);
      }
    }
  }

  __attribute__((noinline)) void WriteOne(const unsigned char* codes, float scale, unsigned char* row) {
    WithNumbers(decoder_, [&](const auto& numbers) __attribute__((always_inline)) {
      WriteNumbers(numbers, codes, scale, columns_, row);
    });
  }

  // The rows in the type of the values, for tables without scales.
  void MakeNarrow(const size_t* ids, size_t count, unsigned char* rows) {
    dpq::WriteBlock(table_.plain(), layout_, make_, stage_, ids, count, {rows, step_ * sizeof(float), false});
  }

 private:
  const Table& table_;
  const Layout layout_;
  const size_t columns_, step_;
  dpq::RowMaker* const make_;
  const Decoder decoder_;
  const CodeRows codes_;
  dpq::Stage stage_;
};

// Doubles of `count` pairs of rows.
__attribute__((noinline)) inline Size RowDoubles(const Table& table, size_t count) {
  const Size columns =
      Size(static_cast<uint64_t>(table.num_groups)) * static_cast<uint64_t>(table.group_width);
  return (columns + kRoundedColumns) * count;
}

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_ROWS_H_
