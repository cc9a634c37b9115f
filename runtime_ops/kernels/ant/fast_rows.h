// Rows of ids: where they go, where their terms are, and the terms of many of them as blocks. While those of
// a block are read, those of the next one are on their way.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_ROWS_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_ROWS_H_

#include "kernels/ant/fast_sum.h"

namespace edge_embed::ant {
namespace {

// Where rows go: the first one of the call to `first`.
struct RowWriter {
  unsigned char* first;
  ee_type type;
  size_t columns;

  unsigned char* At(size_t row, size_t column) const {
    return first + (row * columns + column) * SizeOf(type);
  }
};

inline bool IsNoRow(const Table& table, int64_t id) { return id < 0 || id >= table.num_embeddings; }

// A row of more terms than a block holds, `row`, in parts: makes the block of the next ones, with their
// weights times `scale`, and moves on.
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

// The terms of ids[i] and of those after it up to `end`, as many as fit, with their weights times `scale`;
// none where the first row has too many. A row of padding has none. A status is that of the first row that is
// not in the block. What is read next are the ids up to `last`.
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
    // Row offsets must be there before they say what else to ask for.
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
