// rows[i, :] = row(ids[i]): rows in blocks, first their terms, then the sums, of many blocks together where
// that pays. While the terms of a block are read, those of the next one are on their way.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_GATHER_H_

#include "kernels/ant/fast_batch.h"
#include "kernels/ant/fast_sum.h"
#include "kernels/fast_numbers.h"

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

// 1 to kGroup terms. A row of float32 is summed where it goes.
inline void WriteShortRow(const Tiles& tiles, const uint32_t* anchors, const float* weights, size_t count,
                          ee_type type, unsigned char* out) {
  if (type == EE_FLOAT32) {
    SumGroup(tiles, anchors, weights, count, out);
  } else {
    float numbers[kBuffer];
    SumGroup(tiles, anchors, weights, count, reinterpret_cast<unsigned char*>(numbers));
    NarrowNumbers(numbers, tiles.count(), {out, type}, 0);
  }
}

inline bool IsShort(size_t count, size_t columns) {
  return count > 0 && count <= kGroup && columns >= kLanes;
}

// The rows of a block that are not short.
__attribute__((noinline)) inline void WriteOtherRows(const FastTable& table, const Block& block, size_t row,
                                                     const RowWriter& rows, double* total) {
  const uint32_t* anchors = block.terms.anchors;
  const float* weights = block.terms.weights;
  for (size_t j = 0; j < block.rows; ++j) {
    const size_t count = block.Count(j);
    if (!IsShort(count, rows.columns)) {
      __builtin_memset(total, 0, rows.columns * sizeof(double));
      AddToTotal(table, anchors, weights, count, total);
      StoreTotal(total, rows.columns, rows.type, rows.At(row + j, 0));
    }
    anchors += count;
    weights += count;
  }
}

// Those that are, of `fewest` terms at least.
__attribute__((noinline)) inline void WriteShortRows(const FastTable& table, const Block& block, size_t row,
                                                     size_t fewest, const RowWriter& rows) {
  if (rows.columns < kLanes) return;
  for (Tiles tiles(table); tiles.Next();) {
    const uint32_t* anchors = block.terms.anchors;
    const float* weights = block.terms.weights;
    for (size_t j = 0; j < block.rows; ++j) {
      const size_t count = block.Count(j);
      if (count >= fewest && IsShort(count, rows.columns)) {
        unsigned char* const out = rows.At(row + j, tiles.begin());
        PrefetchOutput(out, tiles.count() * SizeOf(rows.type));
        WriteShortRow(tiles, anchors, weights, count, rows.type, out);
      }
      anchors += count;
      weights += count;
    }
  }
}

// Rows of the ids begin .. end-1, the first of them to rows.At(0, 0); by a batch, where there is one. Needs a
// double for each column.
__attribute__((noinline)) inline ee_status WriteRows(const FastTable& table, const Ids& ids, size_t begin,
                                                     size_t end, const RowWriter& rows, double* total,
                                                     Batch* batch, size_t* bad_position) {
  const size_t fewest = batch == nullptr ? 1 : kPiece + 1;
  Block block;
  for (size_t i = begin; i < end;) {
    ee_status status = FillBlock(table, ids, i, end, end, table.weight_scale, &block);
    WriteOtherRows(table, block, i - begin, rows, total);
    WriteShortRows(table, block, i - begin, fewest, rows);
    i += block.rows;
    const bool is_long = status == EE_OK && block.rows == 0;
    if (batch != nullptr) {
      batch->Add(block);
      const bool is_last = is_long || status != EE_OK || i == end;
      if (is_last || !batch->HasRoom()) batch->Write(rows.At(i - begin - batch->rows(), 0));
    }
    if (is_long) {
      status = SumLongRow(table, block.ranges[0], &block, total);
      if (status == EE_OK) StoreTotal(total, rows.columns, rows.type, rows.At(i++ - begin, 0));
    }
    if (status != EE_OK) {
      *bad_position = i;
      return status;
    }
  }
  return EE_OK;
}

// A function of its own, because a batch takes 60 kB of the stack.
__attribute__((noinline)) inline ee_status WriteBatches(const FastTable& table, const Ids& ids, size_t begin,
                                                        size_t end, const RowWriter& rows, double* total,
                                                        size_t* bad_position) {
  Batch batch(table);
  return WriteRows(table, ids, begin, end, rows, total, &batch, bad_position);
}

inline Size GatherScratch(const Table& table) { return static_cast<uint64_t>(table.embedding_dim); }

// Gather, by any loops.
inline ee_status GatherBy(const Loops& loops, const Table& table, const Ids& ids, size_t begin, size_t end,
                          const Output& rows, double* scratch, size_t* bad_position) {
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  const size_t first = begin * columns * SizeOf(rows.type);
  const RowWriter to{static_cast<unsigned char*>(rows.data) + first, rows.type, columns};
  const FastTable fast(table, loops);
  if (rows.type == EE_FLOAT32 && BatchesPay(table, end - begin)) {
    return WriteBatches(fast, ids, begin, end, to, scratch, bad_position);
  }
  return WriteRows(fast, ids, begin, end, to, scratch, nullptr, bad_position);
}

inline ee_status Gather(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                        double* scratch, size_t* bad_position) {
  return GatherBy(OwnLoops(), table, ids, begin, end, rows, scratch, bad_position);
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_GATHER_H_
