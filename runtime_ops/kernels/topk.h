// The k largest logits of every hidden state, in descending order, equal logits by lowest row. At most a
// block of logits is in memory.
//
//   values[b, 0] >= values[b, 1] >= ...      the k largest of    logit[b, i] = hidden[b] . row(i) (+ bias[i])
//
// In float16, a logit is rounded, the bias is added, and the sum is rounded again, as separate operators do.
// NaN counts as the largest value.
#ifndef EDGE_EMBED_KERNELS_TOPK_H_
#define EDGE_EMBED_KERNELS_TOPK_H_

#include "kernels/limits.h"
#include "kernels/variant.h"

namespace edge_embed {

constexpr int64_t kMaxTopKRows = 0xFFFFFFFE;

// Returns EE_BAD_K if the table has fewer than k rows, or more rows than a candidate can hold.
inline ee_status CheckK(int64_t k, int64_t rows) {
  return k >= 1 && k <= EE_MAX_K && k <= rows && rows <= kMaxTopKRows ? EE_OK : EE_BAD_K;
}

// Sorts a heap of candidates in descending order.
void Sort(Candidate* heap, size_t k);

// Applies rounding and bias to `logits` [count] of the rows from `first` on, in input.type. The results are
// floats.
void FinishLogits(const TopKInput& input, const void* logits, size_t first, size_t count, float* finished);

// Finds candidates by the kernels of a variant: by a special kernel for some tables, or via logits, a block
// at a time.
template <class Table>
class TopK {
 public:
  TopK(const Variant& variant, const Table& table)
      : variant_(variant), kernels_(KernelsOf(variant, table)), own_(kernels_.topk) {
    if (own_ != nullptr && !own_->takes(table)) own_ = nullptr;
  }

  Size Prepared(const Table& table, size_t batch) const {
    return own_ != nullptr ? own_->prepared(table, batch) : kernels_.logits.Prepared(table, batch);
  }
  LogitsInput Prepare(const Table& table, const float* hidden, size_t batch, double* memory) const {
    if (own_ == nullptr) return kernels_.logits.Prepare(table, hidden, batch, memory);
    own_->prepare(table, hidden, batch, memory);
    return {hidden, batch, memory};
  }
  Size scratch(const Table& table) const {
    return own_ != nullptr ? Size(0) : kernels_.logits.scratch(table) + 2 * kBlockDoubles;
  }

  // Offers the rows begin .. end-1.
  ee_status Run(const Table& table, const TopKInput& input, size_t begin, size_t end, double* scratch,
                size_t* bad_position) const {
    if (own_ == nullptr) return Scan(table, input, begin, end, scratch, bad_position);
    own_->run(table, input, begin, end);
    return EE_OK;
  }

 private:
  static constexpr size_t kBlockDoubles = 4096;  // doubles of logits, and of the logits of one more state
  static constexpr size_t kBlockLogits = kBlockDoubles * 2;

  ee_status Scan(const Table& table, const TopKInput& input, size_t begin, size_t end, double* scratch,
                 size_t* bad_position) const;

  const Variant& variant_;
  const Kernels<Table>& kernels_;
  const TopKKernel<Table>* own_;
};

#define EDGE_EMBED_TOPK(method, NAME) extern template class TopK<method::Table>;
EDGE_EMBED_METHODS(EDGE_EMBED_TOPK)
#undef EDGE_EMBED_TOPK

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_TOPK_H_
