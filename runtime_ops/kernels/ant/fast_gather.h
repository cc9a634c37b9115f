// rows[i, :] = row(ids[i]), in blocks of rows: first the terms, then the sums. Sums of many blocks are
// computed together if that is faster. While the terms of a block are read, those of the next one are
// prefetched.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_GATHER_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_GATHER_H_

#include "kernels/ant/fast_batch.h"
#include "kernels/ant/fast_dense.h"

namespace edge_embed::ant {
namespace {

// Sums 1 to kGroup terms. A float32 row is summed at its destination.
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

// Writes the rows of a block that are not short.
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

// Writes the short rows of a block with at least `fewest` terms.
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

// Writes rows of the ids begin .. end-1 from rows.At(0, 0) on, by `batch` if it is not null. `total` is a
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

// A separate function, because a batch needs 60 kB of the stack.
__attribute__((noinline)) inline ee_status WriteBatches(const FastTable& table, const Ids& ids, size_t begin,
                                                        size_t end, const RowWriter& rows, double* total,
                                                        size_t* bad_position) {
  Batch batch(table);
  return WriteRows(table, ids, begin, end, rows, total, &batch, bad_position);
}

inline Size GatherScratch(const Table& table) {
  return Size(static_cast<uint64_t>(table.embedding_dim)) + (AreDense(table) ? Mix::Doubles(table) : 0);
}

// Gather with any innermost loops.
inline ee_status GatherBy(const Loops& loops, const Table& table, const Ids& ids, size_t begin, size_t end,
                          const Output& rows, double* scratch, size_t* bad_position) {
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  const size_t first = begin * columns * SizeOf(rows.type);
  const RowWriter to{static_cast<unsigned char*>(rows.data) + first, rows.type, columns};
  const FastTable fast(table, loops);
  if (AreDense(table) && end - begin >= kFewestDense) {
    return WriteDense(fast, ids, begin, end, to, scratch, bad_position);
  }
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
