// out[b, :] = sum | mean | max over the bag of row(ids[i]): rows in float32, sums in float64.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_TT_FAST_BAG_H_

#include "kernels/tt/fast_chain.h"

namespace edge_embed::tt {
namespace {

inline Size BagScratch(const Table& table) {
  return AlignedDoubles(Chain::ScratchFloats(table) + Size(Columns(table)) * 3 + 3 * kLineFloats);
}

__attribute__((noinline)) void AddRow(double weight, const float* __restrict row, size_t columns,
                                      double* __restrict result) {
  for (size_t c = 0; c < columns; ++c) result[c] += weight * static_cast<double>(row[c]);
}

// The same as KeepLargest (kernels/vector.h): NaN stays.
__attribute__((noinline)) void KeepLargestRow(const float* __restrict row, size_t columns,
                                              double* __restrict result) {
  for (size_t c = 0; c < columns; ++c) {
    const double value = static_cast<double>(row[c]), largest = result[c];
    result[c] = ((value <= largest) | (largest != largest)) ? largest : value;
  }
}

class BagCall {
 public:
  BagCall(const Table& table, const Ids& ids, const Bags& bags, double* scratch)
      : table_(table),
        ids_(ids),
        bags_(bags),
        columns_(Columns(table)),
        row_(Aligned(scratch)),
        result_(reinterpret_cast<double*>(row_ + WholeLines(columns_))),
        chain_(table, row_ + WholeLines(columns_) + WholeLines(2 * columns_)) {}

  // The ids at positions [begin, end).
  ee_status Reduce(size_t begin, size_t end, size_t* bad_position) {
    size_t counted = 0;
    __builtin_memset(result_, 0, columns_ * sizeof(double));
    for (size_t i = begin; i < end; ++i) {
      const int64_t id = ids_.At(i);
      if (id == table_.padding_idx && id != kNoPadding) continue;
      if (id < 0 || id >= table_.num_embeddings) {
        *bad_position = i;
        return EE_ID_OUT_OF_RANGE;
      }
      chain_.Row(At(id), Bytes(row_));
      if (bags_.mode == BagMode::kMax && counted > 0) {
        KeepLargestRow(row_, columns_, result_);
      } else {
        AddRow(Weight(i), row_, columns_, result_);
      }
      ++counted;
    }
    if (bags_.mode == BagMode::kMean && counted > 0) {
      for (size_t c = 0; c < columns_; ++c) result_[c] /= static_cast<double>(counted);
    }
    return EE_OK;
  }

  void Write(const Output& out, size_t bag) const {
    Narrow(result_, columns_, out.data, out.type, bag * columns_);
  }

 private:
  double Weight(size_t i) const {
    return bags_.sample_weights == nullptr ? 1.0
                                           : LoadNumber(bags_.sample_weights, bags_.sample_weight_type, i);
  }

  const Table& table_;
  const Ids& ids_;
  const Bags& bags_;
  const size_t columns_;
  float* const row_;
  double* const result_;
  Chain chain_;
};

inline ee_status BagFast(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                         const Output& out, double* scratch, size_t* bad_position) {
  BagCall call(table, ids, bags, scratch);
  for (size_t bag = begin; bag < end; ++bag) {
    const size_t first = static_cast<size_t>(Load<int64_t>(bags.offsets, bag));
    const size_t last = static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1));
    const ee_status status = call.Reduce(first, last, bad_position);
    if (status != EE_OK) return status;
    call.Write(out, bag);
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_BAG_H_
