// out[b, :] = sum | mean | max over i in [offsets[b], offsets[b+1]) of row(ids[i])
//
// Sums are rounded as those of the plain kernels (dpq/fast_bag.h): a row has its exact numbers, up to seven
// rows are added in registers, and these sums are added together with their rounding errors. Rows of integers
// are never stored: each number is decoded, multiplied by its scale and added.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_BAG_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq_scaled/fast_rows.h"

namespace edge_embed::dpq_scaled {
namespace {

using dpq::BagBlock;
using dpq::kBagRows;
using dpq::kTerms;
using dpq::Totals;

// The codes and scales of the rows of a block.
struct BlockRows {
  const unsigned char* codes[kBagRows];
  float scales[kBagRows];
};

// Adds kSteps of columns of all rows of a block, from the byte `from` of their codes on.
template <size_t kSteps>
__attribute__((noinline)) void AddSteps(const Decoder& given, const BagBlock& block, const BlockRows& rows,
                                        size_t from, const Totals& totals, size_t at) {
  const Decoder decoder = given;
  const size_t step_bytes = decoder.step_bytes();
  for (size_t first = 0; first < block.count; first += kTerms) {
    const size_t left = block.count - first, end = first + (left < kTerms ? left : kTerms);
    Floats parts[kSteps * kVectors] = {};
    for (size_t i = first; i < end; ++i) {
      const unsigned char* codes = rows.codes[i] + from;
      const Floats scale = Broadcast(rows.scales[i]), weight = Broadcast(block.weights[i]);
      for (size_t k = 0; k < kSteps; ++k, codes += step_bytes) {
        Floats numbers[kVectors];
        decoder.Decode(codes, numbers);
        for (size_t v = 0; v < kVectors; ++v) parts[k * kVectors + v] += weight * (numbers[v] * scale);
      }
    }
    dpq::FoldParts(parts, kSteps * kVectors, block.first && first == 0, totals, at, kLanes);
  }
}

// All columns from `at` on: many steps at a time, then fewer.
template <size_t kSteps = 8 / kVectors>
void AddIntegers(const RowMaker& maker, const BagBlock& block, const BlockRows& rows, const Totals& totals,
                 size_t at = 0) {
  const size_t step_bytes = maker.decoder().step_bytes();
  const size_t steps = (maker.columns() + kStep - 1) / kStep;
  for (; at / kStep + kSteps <= steps; at += kSteps * kStep) {
    AddSteps<kSteps>(maker.decoder(), block, rows, at / kStep * step_bytes, totals, at);
  }
  if constexpr (kSteps > 1) {
    if (at / kStep < steps) AddIntegers<kSteps / 2>(maker, block, rows, totals, at);
  }
}

// Scratch of a bag: the two totals, the made rows, and the memory of the maker.
inline Size BagScratch(const Table& table) {
  return RowDoubles(table, 1 + kMadeAtOnce / 2) + RowMaker::MemoryDoubles(table);
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

  // Adds the ids begin .. end-1. *counted is the number of rows without padding.
  ee_status Add(size_t begin, size_t end, size_t* counted, size_t* bad_position) {
    *counted = 0;
    while (begin < end) {
      BagBlock block;
      BlockRows rows;
      const size_t next = dpq::TakeBlock(table_.plain(), ids_, bags_, begin, end, &block);
      PrefetchAhead(table_, maker_.layout(), ids_, begin, &ahead_);
      const size_t sound = TakeScales(table_, block.ids, block.count, rows.scales);
      if (sound < block.count) {
        *bad_position = PositionOf(table_, ids_, begin, sound);
        return EE_BAD_ROW_SCALE_CODE;
      }
      if (next < end && block.count < kBagRows) {
        *bad_position = next;
        return EE_ID_OUT_OF_RANGE;
      }
      block.first = *counted == 0;
      if (block.count > 0) Reduce(block, &rows);
      *counted += block.count;
      begin = next;
    }
    return EE_OK;
  }

 private:
  void Reduce(const BagBlock& block, BlockRows* rows) {
    if (maker_.decoder().fits() && !work_.largest) {
      for (size_t i = 0; i < block.count; ++i) rows->codes[i] = maker_.codes().At(block.ids[i]);
      return AddIntegers(maker_, block, *rows, work_.totals);
    }
    for (size_t i = 0; i < block.count; i += kMadeAtOnce) {
      const size_t left = block.count - i, count = left < kMadeAtOnce ? left : kMadeAtOnce;
      const bool first = block.first && i == 0;
      maker_.Make(block.ids + i, rows->scales + i, count, work_.made);
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

inline ee_status Bag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                     const Output& out, double* scratch, size_t* bad_position) {
  BagSum sum(table, ids, bags, scratch);
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
