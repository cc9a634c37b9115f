// Sums of many rows, some columns at a time. Rows of a call read the same anchors repeatedly, and a copy of a
// few columns of all anchors stays in the first-level cache. The copy is necessary: in the original, a few
// columns of many anchors occupy few sets of the cache.
//
// The order of the sum of a row is the same as for a single row, so that its bits do not depend on the call.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_BATCH_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_BATCH_H_

#include "kernels/ant/fast_sum.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMostCopied = 128;  // anchors

// True if this number of rows outweighs copying the anchors and computing some columns twice.
inline bool BatchesPay(const Table& table, size_t rows) {
  constexpr uint64_t kReads = 8;  // reads of each anchor
  const uint64_t anchors = static_cast<uint64_t>(table.num_anchors);
  const uint64_t columns = static_cast<uint64_t>(table.embedding_dim);
  const uint64_t made = (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
  const uint64_t terms = static_cast<uint64_t>(table.num_weights / table.num_embeddings);
  if (kIsSmall || anchors > kMostCopied || terms > kPiece || columns < kTileColumns) return false;
  return made - columns <= columns / 4 && terms * rows >= kReads * anchors;
}

// Rows that wait to be summed. Rows without terms and rows of more than kPiece terms are not summed here.
class Batch {
 public:
  explicit Batch(const FastTable& table) : table_(table) {}

  size_t rows() const { return rows_; }
  bool HasRoom() const { return rows_ + kBlockRows <= kMostRows && terms_ + kMaxTerms <= kMostTerms; }

  __attribute__((noinline)) void Add(const Block& block) {
    const Terms& terms = block.terms;
    for (size_t t = 0; t < terms.count; t += kLanes) {
      using Stored = Vector<uint16_t>;
      const Words anchors = LoadWords<uint32_t>(reinterpret_cast<const unsigned char*>(terms.anchors + t));
      *reinterpret_cast<Stored::Unaligned*>(anchors_ + terms_ + t) =
          __builtin_convertvector(anchors * kTileColumns, Stored::Type);
    }
    __builtin_memcpy(weights_ + terms_, terms.weights, terms.count * sizeof(float));
    terms_ += terms.count;
    for (size_t j = 0; j < block.rows; ++j) {
      const size_t count = block.Count(j);
      counts_[rows_++] = static_cast<uint16_t>(count);
      if (count <= kPiece) ++rows_of_[count];
    }
  }

  // Writes all rows, the first one to `out`. The batch is then empty.
  __attribute__((noinline)) void Write(unsigned char* out) {
    const size_t columns = static_cast<size_t>(table_.embedding_dim);
    Sort();
    for (size_t c = 0; c < columns; c += kTileColumns) {
      const size_t column = c + kTileColumns <= columns ? c : columns - kTileColumns;
      CopyColumns(table_, column, tile_);
      Sum({tile_, anchors_, weights_, out + column * sizeof(float), columns * sizeof(float)});
    }
    rows_ = terms_ = 0;
    for (size_t& rows : rows_of_) rows = 0;
  }

 private:
  static constexpr size_t kMostRows = 512, kMostTerms = kPiece * kMostRows;

  // Sorts the rows by the number of terms.
  void Sort() {
    size_t next[kPiece + 1];
    for (size_t count = 0, all = 0; count <= kPiece; ++count) {
      next[count] = all;
      all += rows_of_[count];
    }
    for (size_t row = 0, term = 0; row < rows_; ++row) {
      const size_t count = counts_[row];
      if (count <= kPiece) {
        sorted_[next[count]++] = {static_cast<uint16_t>(row), static_cast<uint16_t>(term)};
      }
      term += count;
    }
  }

  void Sum(const RowSums& sums) const {
    const RowTerms* rows = sorted_ + rows_of_[0];
    for (size_t count = 1; count <= kPiece; rows += rows_of_[count++]) {
      if (rows_of_[count] > 0) table_.loops.rows[count - 1](sums, rows, rows_of_[count]);
    }
  }

  const FastTable& table_;
  size_t rows_ = 0, terms_ = 0;
  size_t rows_of_[kPiece + 1] = {};  // rows with 0, 1, ... terms
  uint16_t counts_[kMostRows];
  uint16_t anchors_[kMostTerms + kLanes];
  float weights_[kMostTerms];
  RowTerms sorted_[kMostRows];
  alignas(64) float tile_[kMostCopied * kTileColumns];
};

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_BATCH_H_
