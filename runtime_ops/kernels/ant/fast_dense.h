// Rows that name most anchors, computed as a product (kernels/ant/fast_mix.h). Other rows are computed from
// their terms: rows of few terms, for which a product is neither precise nor fast enough, rows that name an
// anchor twice, and rows that are not finite. The last bits of a row therefore depend on the call.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_DENSE_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_DENSE_H_

#include "kernels/ant/fast_mix.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kFewestDense = 16;  // rows of a call

// True if rows of a table are computed this way. It requires enough terms in an average row, at least three
// quarters of the anchors. It depends on the columns too: writing the weights costs as much as 16 columns. Up
// to kGroup terms are summed without float64, which is as fast.
inline bool AreDense(const Table& table) {
  const uint64_t terms = static_cast<uint64_t>(table.num_weights / table.num_embeddings);
  const uint64_t anchors = static_cast<uint64_t>(table.num_anchors);
  const uint64_t columns = static_cast<uint64_t>(table.embedding_dim);
  return Mix::Takes(table) && terms > kGroup && 4 * terms * columns >= 3 * anchors * (columns + 16);
}

// True for rows of such a table with this number of terms.
inline bool IsDense(size_t anchors, size_t terms) {
  return 8 * terms >= 5 * anchors && LongestRun(anchors, terms) > 0;
}

// to[anchor] = its weight, or NaN if it has two, so that the result is not used.
__attribute__((noinline)) inline void Scatter(const Terms& terms, float* to) {
  for (size_t t = 0; t < terms.count; ++t) {
    float& weight = to[terms.anchors[t]];
    weight = weight == 0 ? terms.weights[t] : __builtin_nanf("");
  }
}

// Writes the weights of row `row` by anchor.
inline ee_status ReadWeights(const Table& table, Range row, Block* block, float* weights) {
  __builtin_memset(weights, 0, static_cast<size_t>(table.num_anchors) * sizeof(float));
  while (row.begin < row.end) {
    const ee_status status = ReadPart(table, table.weight_scale, &row, block);
    if (status != EE_OK) return status;
    Scatter(block->terms, weights);
  }
  return EE_OK;
}

// Rows of the ids from `begin` on, written from rows.At(0, 0) on.
class DenseRows {
 public:
  DenseRows(const FastTable& table, const Ids& ids, size_t begin, const RowWriter& rows, double* scratch)
      : table_(table),
        ids_(ids),
        begin_(begin),
        rows_(rows),
        total_(scratch),
        mix_(table, rows, true, scratch + rows.columns) {}

  // Computes row `row` of the output, now or in Finish.
  ee_status Add(size_t row) {
    const size_t anchors = static_cast<size_t>(table_.num_anchors);
    Range range{};
    ee_status status = FindRow(table_, ids_.At(begin_ + row), &range);
    if (status != EE_OK) return status;
    const size_t terms = range.end - range.begin;
    if (!IsDense(anchors, terms)) return WriteTerms(row);
    status = ReadWeights(table_, range, &block_, mix_.Next());
    if (status != EE_OK) return status;
    mix_.Add(row, terms);
    if (mix_.IsFull()) Finish();
    return EE_OK;
  }

  __attribute__((noinline)) void Finish() {
    mix_.Write([this](size_t row) { WriteTerms(row); });
  }

 private:
  __attribute__((noinline)) ee_status WriteTerms(size_t row) {
    Range range;
    ee_status status = FindRow(table_, ids_.At(begin_ + row), &range);
    if (status == EE_OK) status = SumLongRow(table_, range, &block_, total_);
    if (status == EE_OK) StoreTotal(total_, rows_.columns, rows_.type, rows_.At(row, 0));
    return status;
  }

  const FastTable& table_;
  const Ids& ids_;
  size_t begin_;
  const RowWriter& rows_;
  double* total_;
  Mix mix_;
  Block block_;
};

// The same as WriteRows (kernels/ant/fast_gather.h).
__attribute__((noinline)) inline ee_status WriteDense(const FastTable& table, const Ids& ids, size_t begin,
                                                      size_t end, const RowWriter& rows, double* scratch,
                                                      size_t* bad_position) {
  constexpr size_t kAhead = 4;
  DenseRows dense(table, ids, begin, rows, scratch);
  ee_status status = EE_OK;
  for (size_t i = begin; status == EE_OK && i < end; ++i) {
    if (end - i > kAhead) PrefetchTerms(table, ids.At(i + kAhead));
    if (end - i > 2 * kAhead) PrefetchOffsets(table, ids.At(i + 2 * kAhead));
    status = dense.Add(i - begin);
    if (status != EE_OK) *bad_position = i;
  }
  dense.Finish();
  return status;
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_DENSE_H_
