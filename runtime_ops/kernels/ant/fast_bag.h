// out[b, :] = sum | mean over the terms of all rows of a bag, whichever row they are of: no row is made.
// Where a bag has more terms than there are anchors, the weights of each anchor are added first. A
// maximum needs the rows, one after the other.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_

#include "kernels/ant/fast_gather.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMaxMergedAnchors = 4096;

// Anchors whose weights may be merged.
inline size_t MergedAnchors(const Table& table) {
  const bool are_few = table.num_anchors <= static_cast<int64_t>(kMaxMergedAnchors);
  return are_few ? static_cast<size_t>(table.num_anchors) : 0;
}

// What a bag needs of scratch.
struct BagScratch {
  BagScratch(const Table& table, double* scratch)
      : columns(static_cast<size_t>(table.embedding_dim)),
        total(scratch),
        row(reinterpret_cast<float*>(total + columns)),
        merged(total + 2 * columns),
        is_used(reinterpret_cast<unsigned char*>(merged + MergedAnchors(table))) {}

  size_t columns;
  double* total;           // [columns]
  float* row;              // [2, columns]: a row, and the largest numbers so far
  double* merged;          // [MergedAnchors], the sum of an anchor's weights
  unsigned char* is_used;  // [MergedAnchors], 1: the anchor has a weight
};

inline Size BagScratchDoubles(const Table& table) {
  const uint64_t anchors = MergedAnchors(table);
  return Size(static_cast<uint64_t>(table.embedding_dim)) * 2 + anchors + anchors / sizeof(double) + 1;
}

// weights[t] * factor, rounded once.
__attribute__((noinline)) inline void ScaleWeights(double factor, size_t count, float* weights) {
  for (size_t t = 0; t < count; ++t) {
    weights[t] = static_cast<float>(factor * static_cast<double>(weights[t]));
  }
}

// Adds the rows of a bag to scratch.total, each one times its sample weight and weight_scale.
class BagSum {
 public:
  BagSum(const Table& table, const Bags& bags, const BagScratch& scratch, bool merges)
      : table_(table), bags_(bags), scratch_(scratch), merges_(merges) {
    __builtin_memset(scratch.total, 0, scratch.columns * sizeof(double));
    if (!merges) return;
    __builtin_memset(scratch.merged, 0, MergedAnchors(table) * sizeof(double));
    __builtin_memset(scratch.is_used, 0, MergedAnchors(table));
  }

  // What weights must be multiplied by as they are read: the rest is Add's, so that a weight is rounded once.
  float Scale() const { return merges_ || bags_.sample_weights != nullptr ? 1.0F : table_.weight_scale; }

  // The rows of a block, the first of them that of ids[i].
  void Add(size_t i, Block* block) const {
    const uint32_t* anchors = block->terms.anchors;
    float* weights = block->terms.weights;
    for (size_t j = 0; j < block->rows; ++j) {
      const size_t count = block->Count(j);
      if (merges_) {
        Merge(Factor(i + j), anchors, weights, count);
      } else if (bags_.sample_weights != nullptr) {
        ScaleWeights(Factor(i + j), count, weights);
      }
      anchors += count;
      weights += count;
    }
    if (merges_) return;
    const Terms& terms = block->terms;
    AddToTotal(table_, terms.anchors, terms.weights, terms.count, scratch_.total);
  }

  // `terms` is a buffer. An anchor without a term is left out: it may hold what is not a number.
  void Finish(Terms* terms) const {
    if (!merges_) return;
    terms->count = 0;
    const size_t anchors = MergedAnchors(table_);
    for (size_t a = 0; a <= anchors; ++a) {
      if (a == anchors || terms->count == kMaxTerms) {
        AddToTotal(table_, terms->anchors, terms->weights, terms->count, scratch_.total);
        terms->count = 0;
      }
      if (a == anchors || scratch_.is_used[a] == 0) continue;
      terms->anchors[terms->count] = static_cast<uint32_t>(a);
      terms->weights[terms->count++] = static_cast<float>(scratch_.merged[a]);
    }
  }

 private:
  double Factor(size_t i) const {
    const double scale = static_cast<double>(table_.weight_scale);
    if (bags_.sample_weights == nullptr) return scale;
    return scale * LoadNumber(bags_.sample_weights, bags_.sample_weight_type, i);
  }

  void Merge(double factor, const uint32_t* anchors, const float* weights, size_t count) const {
    for (size_t t = 0; t < count; ++t) {
      scratch_.merged[anchors[t]] += factor * static_cast<double>(weights[t]);
      scratch_.is_used[anchors[t]] = 1;
    }
  }

  const Table& table_;
  const Bags& bags_;
  const BagScratch& scratch_;
  bool merges_;
};

inline bool IsPadding(const Table& table, int64_t id) { return id == table.padding_idx && id != kNoPadding; }

// The rows of a block, the first of them that of ids[i], or one row that is too long for a block.
inline ee_status AddBlock(const Table& table, size_t i, Block* block, const BagSum& sum) {
  if (block->rows > 0) {
    sum.Add(i, block);
    return EE_OK;
  }
  for (Range row = block->ranges[0]; row.begin < row.end;) {
    const ee_status status = ReadPart(table, sum.Scale(), &row, block);
    if (status != EE_OK) return status;
    sum.Add(i, block);
  }
  return EE_OK;
}

// The ids [range), to scratch.total.
inline ee_status SumBag(const Table& table, const Ids& ids, const Bags& bags, const Range& range, size_t last,
                        const BagScratch& scratch, size_t* bad_position) {
  const size_t count = range.end - range.begin;
  const uint64_t average = static_cast<uint64_t>(table.num_weights / table.num_embeddings);
  const size_t merged = MergedAnchors(table);
  const BagSum sum(table, bags, scratch, merged > 0 && (Size(average) * count).saturated() >= merged);
  Block block;
  size_t counted = count;
  for (size_t i = range.begin; i < range.end; i += block.rows) {
    ee_status status = FillBlock(table, ids, i, range.end, last, sum.Scale(), &block);
    if (status != EE_OK) i += block.rows;
    if (status == EE_OK) status = AddBlock(table, i, &block, sum);
    if (status != EE_OK) {
      *bad_position = i;
      return status;
    }
    counted -= block.paddings;
  }
  sum.Finish(&block.terms);
  if (bags.mode != BagMode::kMean || counted < 2) return EE_OK;
  for (size_t c = 0; c < scratch.columns; ++c) scratch.total[c] /= static_cast<double>(counted);
  return EE_OK;
}

// As KeepLargest (kernels/vector.h).
inline void KeepLargestFloats(const float* row, size_t count, float* largest) {
  for (size_t c = 0; c < count; ++c) {
    const float old = largest[c];
    largest[c] = !(row[c] <= old) && old == old ? row[c] : old;
  }
}

// The largest numbers of rows as Gather makes them, to scratch.total.
inline ee_status FindLargest(const Table& table, const Ids& ids, const Range& range,
                             const BagScratch& scratch, size_t* bad_position) {
  float* const row = scratch.row;
  float* const largest = row + scratch.columns;
  bool is_first = true;
  for (size_t i = range.begin; i < range.end; ++i) {
    if (IsPadding(table, ids.At(i))) continue;
    const ee_status status =
        WriteRows(table, ids, i, i + 1, is_first ? largest : row, EE_FLOAT32, scratch.total, bad_position);
    if (status != EE_OK) return status;
    if (!is_first) KeepLargestFloats(row, scratch.columns, largest);
    is_first = false;
  }
  if (is_first) {
    __builtin_memset(scratch.total, 0, scratch.columns * sizeof(double));
  } else {
    Widen(largest, EE_FLOAT32, 0, 1, scratch.columns, scratch.total);
  }
  return EE_OK;
}

inline ee_status Bag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                     const Output& out, double* scratch_doubles, size_t* bad_position) {
  const BagScratch scratch(table, scratch_doubles);
  const size_t last = static_cast<size_t>(Load<int64_t>(bags.offsets, end));
  const RowWriter rows{static_cast<unsigned char*>(out.data), out.type, scratch.columns};
  for (size_t bag = begin; bag < end; ++bag) {
    const Range range{static_cast<size_t>(Load<int64_t>(bags.offsets, bag)),
                      static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1))};
    const ee_status status = bags.mode == BagMode::kMax
                                 ? FindLargest(table, ids, range, scratch, bad_position)
                                 : SumBag(table, ids, bags, range, last, scratch, bad_position);
    if (status != EE_OK) return status;
    StoreTotal(scratch.total, scratch.columns, out.type, rows.At(bag, 0));
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_
