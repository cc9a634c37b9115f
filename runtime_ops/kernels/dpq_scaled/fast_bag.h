// out[b, :] = sum | mean | max over i in [offsets[b], offsets[b+1]) of row(ids[i])
//
// Sums of rows of integers have a kernel of their own (fast_sum.h), and column-wise rows with AVX-512
// (fast_columnwise.h). Otherwise, four rows at a time are made
// and added, or compared, as those of the plain kernels (dpq/fast_bag.h).
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_BAG_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq_scaled/fast_columnwise.h"

namespace edge_embed::dpq_scaled {
namespace {

using dpq::BagBlock;
using dpq::kBagRows;

// Scratch of a bag: the two totals, the made rows, and the memory of the maker.
__attribute__((noinline)) inline Size BagScratch(const Table& table) {
  return RowDoubles(table, 1 + kMadeAtOnce / 2) + RowMaker::MemoryDoubles(table) + CodebookDoubles(table);
}

// Prefetches the rows of the next ids, each once. *ahead is the position after them.
__attribute__((noinline)) inline void PrefetchAhead(const Table& table, const Layout& layout, const Ids& ids,
                                                    size_t begin, size_t* ahead) {
  size_t some[2 * kBagRows], count = 0;
  size_t i = *ahead < begin ? begin : *ahead;
  for (; i < ids.count && i < begin + 2 * kBagRows; ++i) {
    const int64_t id = ids.At(i);
    if (id >= 0 && id < table.num_embeddings) some[count++] = static_cast<size_t>(id);
  }
  PrefetchRows(table, layout, some, count);
  *ahead = i;
}

// The position of row `index` of a block that begins at `begin`: padding ids are no rows of it.
inline size_t PositionOf(const Table& table, const Ids& ids, size_t begin, size_t index) {
  for (size_t i = begin;; ++i) {
    const bool is_padding = table.padding_idx != kNoPadding && ids.At(i) == table.padding_idx;
    if (!is_padding && index-- == 0) return i;
  }
}

// Adds the rows of some bags.
class BagSum {
 public:
  BagSum(const Table& table, const Ids& ids, const Bags& bags, double* scratch)
      : table_(table),
        ids_(ids),
        bags_(bags),
        maker_(table, scratch),
        floats_(reinterpret_cast<float*>(scratch + RowMaker::MemoryDoubles(table).saturated())),
        work_{table.plain(),
              maker_.layout(),
              nullptr,
              false,
              bags.mode == BagMode::kMax,
              maker_.step(),
              {floats_, floats_ + maker_.step()},
              floats_ + 2 * maker_.step(),
              stage_} {
    __builtin_memset(work_.made, 0, kMadeAtOnce * maker_.step() * sizeof(float));
  }

  const Totals& totals() const { return work_.totals; }
  bool adds_integers() const { return maker_.decoder().fits() && !work_.largest; }

  // Adds rows by `rows`, without storing them.
  template <class Rows>
  ee_status Run(Rows* rows, const Output& out, size_t begin, size_t end, size_t* bad_position) {
    return BagWindows<Rows>(table_, maker_, ids_, bags_, out, floats_, rows).Run(begin, end, bad_position);
  }

  const Decoder& decoder() const { return maker_.decoder(); }
  const Layout& layout() const { return maker_.layout(); }

  // Adds the ids begin .. end-1. *counted is the number of rows without padding.
  __attribute__((noinline)) ee_status Add(size_t begin, size_t end, size_t* counted, size_t* bad_position) {
    *counted = 0;
    while (begin < end) {
      BagBlock block;
      float scales[kBagRows];
      const size_t next = dpq::TakeBlock(table_.plain(), ids_, bags_, begin, end, &block);
      PrefetchAhead(table_, maker_.layout(), ids_, begin, &ahead_);
      const size_t sound = TakeScales(table_, block.ids, block.count, scales);
      if (sound < block.count) {
        *bad_position = PositionOf(table_, ids_, begin, sound);
        return EE_BAD_ROW_SCALE_CODE;
      }
      if (next < end && block.count < kBagRows) {
        *bad_position = next;
        return EE_ID_OUT_OF_RANGE;
      }
      block.first = *counted == 0;
      if (block.count > 0) Reduce(block, scales);
      *counted += block.count;
      begin = next;
    }
    return EE_OK;
  }

 private:
  __attribute__((noinline)) void Reduce(const BagBlock& block, const float* scales) {
    for (size_t i = 0; i < block.count; i += kMadeAtOnce) {
      const size_t left = block.count - i, count = left < kMadeAtOnce ? left : kMadeAtOnce;
      const bool first = block.first && i == 0;
      maker_.Make(block.ids + i, scales + i, count, work_.made);
      if (work_.largest) {
        dpq::KeepLargest(work_, count, first);
      } else {
        dpq::AddMade(work_, block.weights + i, count, first);
      }
    }
  }

  const Table& table_;
  const Ids& ids_;
  const Bags& bags_;
  RowMaker maker_;
  float* const floats_;  // the totals, then the made rows
  dpq::Stage stage_;     // the maker has its own
  const dpq::BagWork work_;
  size_t ahead_ = 0;
};

__attribute__((noinline)) inline ee_status Bag(const Table& table, const Ids& ids, const Bags& bags,
                                               size_t begin, size_t end, const Output& out, double* scratch,
                                               size_t* bad_position) {
  BagSum sum(table, ids, bags, scratch);
  if (sum.adds_integers()) {
    IntegerRows rows{sum.decoder()};
    return sum.Run(&rows, out, begin, end, bad_position);
  }
#if defined(__AVX512VBMI__)
  if (IsColumnwise(table) && bags.mode != BagMode::kMax) {
    ColumnRows rows(table, sum.layout(), false, table.has_scales() || bags.sample_weights != nullptr,
                    scratch + (BagScratch(table).saturated() - CodebookDoubles(table).saturated()));
    return sum.Run(&rows, out, begin, end, bad_position);
  }
#endif
  const size_t columns = Columns(table);
  for (size_t bag = begin; bag < end; ++bag) {
    const size_t first = static_cast<size_t>(Load<int64_t>(bags.offsets, bag));
    const size_t last = static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1));
    size_t counted;
    const ee_status status = sum.Add(first, last, &counted, bad_position);
    if (status != EE_OK) return status;
    if (counted == 0) __builtin_memset(sum.totals().high, 0, 2 * RowStep(table) * sizeof(float));
    const float divisor = bags.mode == BagMode::kMean && counted > 0 ? static_cast<float>(counted) : 1;
    dpq::WriteTotals(sum.totals(), divisor, columns, out, bag * columns);
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_BAG_H_
