// Rows of ids: their destinations, the places of their terms, and the terms of many rows as blocks. While the
// terms of a block are read, those of the next one are prefetched.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_ROWS_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_ROWS_H_

#include "kernels/ant/fast_sum.h"

namespace edge_embed::ant {
namespace {

// Destination of rows: the first row of the call is at `first`.
struct RowWriter {
  unsigned char* first;
  ee_type type;
  size_t columns;

  unsigned char* At(size_t row, size_t column) const {
    return first + (row * columns + column) * SizeOf(type);
  }
};

inline bool IsNoRow(const Table& table, int64_t id) { return id < 0 || id >= table.num_embeddings; }

// Reads the next part of a row with more terms than a block holds: fills the block, with weights times
// `scale`, and advances `row`.
inline ee_status ReadPart(const Table& table, float scale, Range* row, Block* block) {
  block->rows = 1;
  block->ranges[0] = {row->begin, row->end - row->begin < kMaxTerms ? row->end : row->begin + kMaxTerms};
  row->begin = block->ranges[0].end;
  block->terms.count = block->Count(0);
  ReadTerms(table, scale, block);
  return block->rows == 1 ? EE_OK : EE_BAD_ANCHOR_ID;
}

inline ee_status SumLongRow(const FastTable& table, Range row, Block* block, double* total) {
  __builtin_memset(total, 0, static_cast<size_t>(table.embedding_dim) * sizeof(double));
  while (row.begin < row.end) {
    const ee_status status = ReadPart(table, table.weight_scale, &row, block);
    if (status != EE_OK) return status;
    AddToTotal(table, block->terms.anchors, block->terms.weights, block->terms.count, total);
  }
  return EE_OK;
}

inline ee_status FindRow(const Table& table, int64_t id, Range* range) {
  if (IsNoRow(table, id)) return EE_ID_OUT_OF_RANGE;
  *range = {0, 0};
  return id == table.padding_idx ? EE_OK : FindTerms(table, static_cast<size_t>(id), range);
}

// Reads the terms of ids[i] and of the following ids up to `end`, as many rows as fit, with weights times
// `scale`. The block is empty if the first row has too many terms. A padding row has no terms. The status is
// that of the first row that is not in the block. Ids up to `last` are read next and prefetched.
template <class AnyIds>
ee_status FillBlock(const Table& table, const AnyIds& ids, size_t i, size_t end, size_t last, float scale,
                    Block* block) {
  ee_status status = EE_OK;
  size_t rows = 0;
  block->paddings = 0;
  size_t& terms = block->terms.count;
  for (terms = 0; i + rows < end && rows < kBlockRows; ++rows) {
    Range* const range = &block->ranges[rows];
    const int64_t id = ids.At(i + rows);
    status = FindRow(table, id, range);
    if (status != EE_OK) break;
    const size_t count = range->end - range->begin;
    if (terms + count > kMaxTerms) break;
    terms += count;
    if (id == table.padding_idx) ++block->paddings;
    // Row offsets must be in the cache before they can tell which terms to prefetch.
    if (last - i > rows + kBlockRows) PrefetchTerms(table, ids.At(i + rows + kBlockRows));
    if (last - i > rows + 2 * kBlockRows) PrefetchOffsets(table, ids.At(i + rows + 2 * kBlockRows));
  }
  block->rows = rows;
  ReadTerms(table, scale, block);
  return block->rows < rows ? EE_BAD_ANCHOR_ID : status;
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_ROWS_H_
