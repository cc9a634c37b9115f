// Bags of rows of integers. Rows are never stored: each number is decoded, multiplied by its scale and added.
//
// Rounding is that of dpq/fast_bag.h: a number of a row is exact, up to seven rows are added in registers,
// and these sums are added together with their rounding errors (Fold).
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_SUM_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_SUM_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq_scaled/fast_window.h"

namespace edge_embed::dpq_scaled {
namespace {

using dpq::Totals;

constexpr size_t kSumRows = 5;

// The common data of a call.
struct SumCall {
  const Window& window;
  bool weighted;
  Totals totals;  // of the rows before and after, for a bag of several windows
  Output out;
  size_t columns;
};

// Rows of one bag in a window, and what is done with their sum.
struct Part {
  size_t begin, end;  // rows of the window
  bool first, last;   // of the bag
  float divisor;      // at least 1
  size_t out_at;      // index of the first column in the output
};

// One vector of columns, of which some may be missing, in any type.
__attribute__((noinline)) inline void WriteSum(const SumCall& call, size_t out_at, const Floats& sum,
                                               size_t column) {
  if (column >= call.columns) return;
  const size_t size = SizeOf(call.out.type), left = call.columns - column;
  unsigned char* const to = static_cast<unsigned char*>(call.out.data) + (out_at + column) * size;
  if (left >= kLanes) return StoreAs(sum, call.out.type, to);
  unsigned char last[kVectorBytes];
  StoreAs(sum, call.out.type, last);
  dpq::CopyRest(last, left * size, to);
}

template <size_t kCount>
__attribute__((always_inline)) inline void WriteSums(const SumCall& call, const Part& part,
                                                     Floats (&sums)[kCount], size_t column) {
  if (part.divisor > 1) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kCount; ++k) sums[k] /= part.divisor;
  }
  if (call.out.type == EE_FLOAT32 && column + kCount * kLanes <= call.columns) {
    auto* const to = static_cast<float*>(call.out.data) + part.out_at + column;
#pragma GCC unroll 16
    for (size_t k = 0; k < kCount; ++k) StoreFloats(sums[k], to + k * kLanes);
  } else {
    Floats copies[kCount];
#pragma GCC unroll 16
    for (size_t k = 0; k < kCount; ++k) copies[k] = sums[k];
#pragma GCC unroll 1
    for (size_t k = 0; k < kCount; ++k) WriteSum(call, part.out_at, copies[k], column + k * kLanes);
  }
}

// The sum of up to kSumRows rows, whose codes are at the byte `from` of each.
template <size_t kSteps, bool kWeighted, Way kWay>
__attribute__((always_inline)) inline void SumRows(const Numbers<kWay>& decoder, const Window& window,
                                                   size_t begin, size_t end, size_t from,
                                                   Floats (&sums)[kSteps * kVectors]) {
#pragma GCC unroll 16
  for (size_t k = 0; k < kSteps * kVectors; ++k) sums[k] = Floats{};
  const size_t step_bytes = decoder.step_bytes();
  for (size_t row = begin; row < end; ++row) {
    const unsigned char* codes = window.codes[row] + from;
    const Floats scale = Broadcast(window.scales[row]);
    const Floats weight = kWeighted ? Broadcast(window.weights[row]) : scale;
#pragma GCC unroll 16
    for (size_t k = 0; k < kSteps; ++k, codes += step_bytes) {
      Floats numbers[kVectors];
      decoder.Decode(codes, numbers);
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        sums[k * kVectors + v] += weight * (kWeighted ? numbers[v] * scale : numbers[v]);
      }
    }
  }
}

// The sums of more rows, added together with their errors.
template <size_t kSteps, Way kWay>
__attribute__((noinline)) void SumMany(const Numbers<kWay>& given, const SumCall& call, const Part& part,
                                       size_t from, size_t column) {
  constexpr size_t kCount = kSteps * kVectors;
  const Numbers<kWay> decoder = given;
  Floats highs[kCount], lows[kCount], sums[kCount];
#pragma GCC unroll 16
  for (size_t k = 0; k < kCount; ++k) {
    highs[k] = part.first ? Floats{} : LoadFloats(call.totals.high + column + k * kLanes);
    lows[k] = part.first ? Floats{} : LoadFloats(call.totals.low + column + k * kLanes);
  }
  for (size_t row = part.begin; row < part.end; row += kSumRows) {
    const size_t end = part.end - row < kSumRows ? part.end : row + kSumRows;
    if (call.weighted) {
      SumRows<kSteps, true>(decoder, call.window, row, end, from, sums);
    } else {
      SumRows<kSteps, false>(decoder, call.window, row, end, from, sums);
    }
#pragma GCC unroll 16
    for (size_t k = 0; k < kCount; ++k) {  // Fold
      const Floats sum = highs[k] + sums[k], taken = sum - highs[k];
      lows[k] += (highs[k] - (sum - taken)) + (sums[k] - taken);
      highs[k] = sum;
    }
  }
#pragma GCC unroll 16
  for (size_t k = 0; k < kCount; ++k) {
    if (!part.last) {
      StoreFloats(highs[k], call.totals.high + column + k * kLanes);
      StoreFloats(lows[k], call.totals.low + column + k * kLanes);
    }
    const Floats sum = highs[k] + lows[k];
    sums[k] = highs[k] - highs[k] == Floats{} ? sum : highs[k];  // an infinite sum has no error
  }
  if (part.last) WriteSums(call, part, sums, column);
}

// The sums of all columns from `column` on: kSteps of them at a time, then fewer.
template <size_t kSteps, Way kWay>
__attribute__((always_inline)) inline void SumColumns(const Numbers<kWay>& decoder, const SumCall& call,
                                                      const Part& part, bool few, size_t column) {
  const size_t step_bytes = decoder.step_bytes();
  for (; column + kSteps * kStep < call.columns + kStep; column += kSteps * kStep) {
    const size_t from = column / kStep * step_bytes;
    if (!few) {
      SumMany<kSteps>(decoder, call, part, from, column);
      continue;
    }
    Floats sums[kSteps * kVectors];
    SumRows<kSteps, false>(decoder, call.window, part.begin, part.end, from, sums);
    WriteSums(call, part, sums, column);
  }
  if constexpr (kSteps > 1) {
    // Fewer sizes for longer bags: a library has a bound.
    if (column < call.columns && few) SumColumns<kSteps / 2>(decoder, call, part, few, column);
    if (column < call.columns && !few) SumColumns<1>(decoder, call, part, few, column);
  }
}

// Adds the rows of the bags begin .. end-1, a window of whole bags at a time. `rows` has Add(call, part),
// which adds rows of one bag, and Finish(call), which is called after the last part of a window.
template <class Rows>
class BagWindows {
 public:
  BagWindows(const Table& table, const RowMaker& maker, const Ids& ids, const Bags& bags, const Output& out,
             float* totals, Rows* rows)
      : table_(table),
        maker_(maker),
        ids_(ids),
        bags_(bags),
        call_{window_, bags.sample_weights != nullptr, {totals, totals + maker.step()}, out, maker.columns()},
        rows_(rows) {}

  __attribute__((noinline)) ee_status Run(size_t begin, size_t end, size_t* bad_position) {
    const size_t all = Offset(end);
    for (size_t bag = begin; bag < end;) {
      const size_t first = Offset(bag);
      Take(first, all);
      size_t done = bag;
      for (; done < end && Offset(done + 1) <= first + window_.count; ++done) {
        Add(done, Offset(done) - first, Offset(done + 1) - first);
      }
      rows_->Finish(call_);
      if (done == bag) {  // it exceeds a window, or has an error
        const ee_status status = AddLong(bag, bad_position);
        if (status != EE_OK) return status;
        ++done;
      }
      bag = done;
    }
    return EE_OK;
  }

 private:
  size_t Offset(size_t bag) const { return static_cast<size_t>(Load<int64_t>(bags_.offsets, bag)); }

  __attribute__((noinline)) void Take(size_t first, size_t all) {
    const size_t end = all - first < kWindowRows ? all : first + kWindowRows;
    TakeWindow(table_, maker_.layout(), maker_.codes(), ids_, &bags_, first, end, &window_);
  }

  void AddPart(size_t bag, size_t begin, size_t end, bool first, bool last, size_t counted) {
    const float divisor = bags_.mode == BagMode::kMean && counted > 0 ? static_cast<float>(counted) : 1;
    rows_->Add(call_, {begin, end, first, last, divisor, bag * call_.columns});
  }

  void Add(size_t bag, size_t begin, size_t end) {
    AddPart(bag, begin, end, true, true, bags_.mode == BagMode::kMean ? CountRows(window_, begin, end) : 0);
  }

  __attribute__((noinline)) ee_status AddLong(size_t bag, size_t* bad_position) {
    const size_t last = Offset(bag + 1);
    size_t counted = 0;
    for (size_t first = Offset(bag), at = first; at < last; at += window_.count) {
      Take(at, last);
      if (window_.status != EE_OK) {
        *bad_position = at + window_.count;
        return window_.status;
      }
      counted += CountRows(window_, 0, window_.count);
      AddPart(bag, 0, window_.count, at == first, at + window_.count == last, counted);
      rows_->Finish(call_);
    }
    return EE_OK;
  }

  const Table& table_;
  const RowMaker& maker_;
  const Ids& ids_;
  const Bags& bags_;
  const SumCall call_;
  Rows* const rows_;
  Window window_;
};

// Rows of integers.
class IntegerRows {
 public:
  explicit IntegerRows(const Decoder& decoder) : decoder_(decoder) {}

  void Add(const SumCall& call, const Part& part) {
    if (count_ == kParts) Finish(call);
    parts_[count_++] = part;
  }

  // A bag of few rows needs no totals.
  __attribute__((noinline)) void Finish(const SumCall& call) {
    WithNumbers(decoder_, [&](const auto& numbers) __attribute__((always_inline)) {
      for (const Part* part = parts_; part < parts_ + count_; ++part) {
        const bool few = part->first && part->last && !call.weighted && part->end - part->begin <= kSumRows;
        SumColumns<8 / kVectors>(numbers, call, *part, few, 0);
      }
    });
    count_ = 0;
  }

 private:
  static constexpr size_t kParts = 64;

  const Decoder& decoder_;
  size_t count_ = 0;
  Part parts_[kParts];
};

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_SUM_H_
