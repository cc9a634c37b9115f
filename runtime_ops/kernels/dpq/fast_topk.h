// The k largest logits of tables with codes of one, two or four bits, found by sums of bytes (fast_bound.h).
//
// The logits of rows are computed only if a bound exceeds the smallest of the k largest so far, by the kernel
// of logits (fast_permute.h). The result is therefore exactly the k largest of these logits, however close
// they are. Close logits only cost time. Rounding and bias keep the order, so they are applied to the bound
// as to the logit.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_

#include "kernels/dpq/fast_bound.h"
#include "kernels/dpq/fast_columns.h"
#include "kernels/dpq/fast_words.h"
#include "kernels/topk.h"

namespace edge_embed::dpq {
namespace {

#if defined(__AVX2__) || defined(__aarch64__)

// A scan of rows for several states. Sums and Filter depend on the instruction set (fast_words.h,
// fast_columns.h).
class Scan {
 public:
  Scan(const Table& table, const TopKInput& input)
      : table_(table),
        layout_(table),
        input_(input),
        as_they_are_(input.bias == nullptr && input.type == EE_FLOAT32),
        of_table_(Parts(table, input.logits.batch).of_table),
        products_(AlignedFloats(input.logits.prepared)),
        of_padding_(products_ + Parts(table, input.logits.batch).padding),
        of_state_(BytesOfState(table)),
        bytes_(reinterpret_cast<const unsigned char*>(
            ScanMemory(table, input.logits.batch, input.logits.prepared))) {}

  // Scans for the states state .. state+kCount-1.
  template <size_t kCount>
  __attribute__((noinline)) void Rows(size_t state, size_t begin, size_t end) {
    Filter filters[kCount];
    for (size_t s = 0; s < kCount; ++s) filters[s] = FilterOf(state + s);
    const bool as_they_are = as_they_are_;
    for (size_t first = begin; first < end; first += kScannedRows) {
      const size_t rows = end - first < kScannedRows ? end - first : kScannedRows;
      Sums sums[kCount];
      AddBytes<kCount>(layout_, first, rows, bytes_ + state * of_state_, of_state_, sums);
      // The codes of the padding row do not determine its logit.
      const bool has_padding = static_cast<uint64_t>(table_.padding_idx) - first < rows;
      for (size_t s = 0; s < kCount; ++s) {
        const bool passes =
            as_they_are ? filters[s].Passes(sums[s]) : FinishedPasses(sums[s], state + s, first, rows);
        if (!passes && !has_padding) continue;
        OfferRows(state + s, first, rows);
        filters[s] = FilterOf(state + s);
      }
    }
  }

 private:
  Bound BoundOf(size_t state) const { return Load<Bound>(bytes_ + input_.logits.batch * of_state_, state); }
  Filter FilterOf(size_t state) const { return {BoundOf(state), input_.BestOf(state).Threshold()}; }

  // True if a bound exceeds the threshold after rounding and bias.
  __attribute__((noinline)) bool FinishedPasses(const Sums& sums, size_t state, size_t first,
                                                size_t rows) const {
    float uppers[kScannedRows];
    unsigned char rounded[kScannedRows * sizeof(float)];
    sums.Uppers(BoundOf(state), uppers);
    const size_t size = SizeOf(input_.type);
    for (size_t i = 0; i < kScannedRows; i += kLanes) {
      StoreAs(LoadFloats(uppers + i), input_.type, rounded + i * size);
    }
    FinishLogits(input_, rounded, first, rows, uppers);
    const float threshold = input_.BestOf(state).Threshold();
    for (size_t i = 0; i < rows; ++i) {
      if (!(uppers[i] <= threshold)) return true;
    }
    return false;
  }

  // Offers the logits of some rows to one state.
  __attribute__((noinline)) void OfferRows(size_t state, size_t first, size_t rows) {
    float logits[kScannedRows], finished[kScannedRows];
    const LogitsOutput output{{logits, input_.type}, 0, first};
    PermuteStates<1>(table_, layout_, {input_.logits, first, first + rows, output}, state, products_,
                     of_table_, of_padding_);
    if (!as_they_are_) FinishLogits(input_, logits, first, rows, finished);
    input_.BestOf(state).Offer(as_they_are_ ? logits : finished, rows, first);
  }

  const Table& table_;
  const Layout layout_;
  const TopKInput& input_;
  const bool as_they_are_;
  const size_t of_table_;
  const float* const products_;
  const float* const of_padding_;
  const size_t of_state_;
  const unsigned char* const bytes_;
};

inline void ScanRows(const Table& table, const TopKInput& input, size_t begin, size_t end) {
  Scan scan(table, input);
  const size_t batch = input.logits.batch;
  size_t state = 0;
  for (; state + kScannedStates <= batch; state += kScannedStates) {
    scan.Rows<kScannedStates>(state, begin, end);
  }
  for (; state < batch; ++state) scan.Rows<1>(state, begin, end);
}

inline bool Scans(const Table& table) { return Permutes(table) && NumNibbles(table) <= kMostGroups; }

constexpr TopKKernel<Table> kScan{Scans, PrepareScan, ScanPrepared, ScanRows};
constexpr const TopKKernel<Table>* kTopK = &kScan;

#else

constexpr const TopKKernel<Table>* kTopK = nullptr;

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_TOPK_H_
