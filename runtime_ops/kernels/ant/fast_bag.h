// out[b, :] = sum | mean over the terms of all rows of a bag; rows are not computed separately. If a bag has
// about as many terms as there are anchors, or more, the weights of each anchor are added first. Several such
// bags are one product (kernels/ant/fast_mix.h). A maximum computes the rows, one after another.
// the other.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_

#include "kernels/ant/fast_gather.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMaxMergedAnchors = 4096;

// The largest number of anchors whose weights are merged.
inline size_t MergedAnchors(const Table& table) {
  const bool are_few = table.num_anchors <= static_cast<int64_t>(kMaxMergedAnchors);
  return are_few ? static_cast<size_t>(table.num_anchors) : 0;
}

// The scratch of a bag.
struct BagScratch {
  BagScratch(const Table& table, double* scratch)
      : columns(static_cast<size_t>(table.embedding_dim)),
        total(scratch),
        row(reinterpret_cast<float*>(total + columns)),
        merged(total + 2 * columns),
        is_used(reinterpret_cast<unsigned char*>(merged + MergedAnchors(table))),
        mix(merged + MergedAnchors(table) + MergedAnchors(table) / sizeof(double) + 1) {}

  size_t columns;
  double* total;           // [columns]
  float* row;              // [2, columns]: a row, and the largest numbers so far
  double* merged;          // [MergedAnchors], the sum of the weights of an anchor
  unsigned char* is_used;  // [MergedAnchors], 1 if the anchor has a weight
  double* mix;             // [Mix::Doubles]
};

inline Size BagScratchDoubles(const Table& table) {
  const uint64_t anchors = MergedAnchors(table);
  return Size(static_cast<uint64_t>(table.embedding_dim)) * 2 + anchors + anchors / sizeof(double) + 1 +
         Mix::Doubles(table);
}

// weights[t] * factor, rounded once.
__attribute__((noinline)) inline void ScaleWeights(double factor, size_t count, float* weights) {
  for (size_t t = 0; t < count; ++t) {
    weights[t] = static_cast<float>(factor * static_cast<double>(weights[t]));
  }
}

// Adds the rows of a bag to scratch.total, each times its sample weight and weight_scale.
class BagSum {
 public:
  BagSum(const FastTable& table, const Bags& bags, const BagScratch& scratch, bool merges)
      : table_(table), bags_(bags), scratch_(scratch), merges_(merges) {
    __builtin_memset(scratch.total, 0, scratch.columns * sizeof(double));
    if (!merges) return;
    __builtin_memset(scratch.merged, 0, MergedAnchors(table) * sizeof(double));
    __builtin_memset(scratch.is_used, 0, MergedAnchors(table));
  }

  // The factor of weights when they are read. Add multiplies by the other factors, so that a weight is
  // rounded once.
  float Scale() const { return merges_ || bags_.sample_weights != nullptr ? 1.0F : table_.weight_scale; }

  // Adds the rows of a block; its first row is that of ids[i].
  __attribute__((noinline)) void Add(size_t i, Block* block) {
    terms_ += block->terms.count;
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

  // Writes the weights times `factor` to mix[MergedAnchors] and returns the number of terms. It returns 0 if
  // they are not merged, or so few that no product is precise enough.
  size_t FinishMix(double factor, float* mix) const {
    const size_t anchors = MergedAnchors(table_);
    if (!merges_ || LongestRun(anchors, terms_) == 0) return 0;
    const double* const __restrict merged = scratch_.merged;
    for (size_t a = 0; a < anchors; ++a) mix[a] = static_cast<float>(merged[a] * factor);
    return terms_;
  }

  // `terms` is a buffer. An anchor without a term is skipped, because it may contain NaN or infinity.
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
    double* const merged = scratch_.merged;  // a store of a byte could change the members of scratch_
    unsigned char* const is_used = scratch_.is_used;
    for (size_t t = 0; t < count; ++t) {
      merged[anchors[t]] += factor * static_cast<double>(weights[t]);
      is_used[anchors[t]] = 1;
    }
  }

  const FastTable& table_;
  const Bags& bags_;
  const BagScratch& scratch_;
  bool merges_;
  size_t terms_ = 0;
};

inline bool IsPadding(const Table& table, int64_t id) { return id == table.padding_idx && id != kNoPadding; }

// Adds the rows of a block, whose first row is that of ids[i], or one row that is too long for a block.
inline ee_status AddBlock(const Table& table, size_t i, Block* block, BagSum* sum) {
  if (block->rows > 0) {
    sum->Add(i, block);
    return EE_OK;
  }
  for (Range row = block->ranges[0]; row.begin < row.end;) {
    const ee_status status = ReadPart(table, sum->Scale(), &row, block);
    if (status != EE_OK) return status;
    sum->Add(i, block);
  }
  return EE_OK;
}

// The common data of all bags of a call.
struct BagCall {
  const FastTable& table;
  const Ids& ids;
  const Bags& bags;
  size_t last;  // end of the ids of the call
  BagScratch scratch;
  RowWriter rows;

  Range At(size_t bag) const {
    return {static_cast<size_t>(Load<int64_t>(bags.offsets, bag)),
            static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1))};
  }
  void Store(size_t bag) const { StoreTotal(scratch.total, scratch.columns, rows.type, rows.At(bag, 0)); }
};

// True if weights are added by anchor first. With a product, this is useful for fewer terms.
inline bool Merges(const Table& table, size_t ids, bool mixes) {
  const uint64_t average = static_cast<uint64_t>(table.num_weights / table.num_embeddings);
  const size_t merged = MergedAnchors(table);
  return merged > 0 && (Size(average) * ids).saturated() >= (mixes ? merged - merged / 4 : merged);
}

// Sums a bag to scratch.total. If mix is not null and the bag has enough terms, it writes its weights to
// mix[anchors] and the number of its terms to *mixed instead.
__attribute__((noinline)) inline ee_status SumBag(const BagCall& call, size_t bag, float* mix, size_t* mixed,
                                                  size_t* bad_position) {
  const Range range = call.At(bag);
  const size_t count = range.end - range.begin;
  BagSum sum(call.table, call.bags, call.scratch, Merges(call.table, count, mix != nullptr));
  Block block;
  size_t counted = count;
  for (size_t i = range.begin; i < range.end; i += block.rows) {
    ee_status status = FillBlock(call.table, call.ids, i, range.end, call.last, sum.Scale(), &block);
    if (status != EE_OK) i += block.rows;
    if (status == EE_OK) status = AddBlock(call.table, i, &block, &sum);
    if (status != EE_OK) {
      *bad_position = i;
      return status;
    }
    counted -= block.paddings;
  }
  const bool divides = call.bags.mode == BagMode::kMean && counted > 1;
  const double divisor = divides ? static_cast<double>(counted) : 1.0;
  if (mix != nullptr) *mixed = sum.FinishMix(1 / divisor, mix);
  if (mix != nullptr && *mixed > 0) return EE_OK;
  sum.Finish(&block.terms);
  for (size_t c = 0; divides && c < call.scratch.columns; ++c) call.scratch.total[c] /= divisor;
  return EE_OK;
}

// The same as KeepLargest (kernels/vector.h), for floats.
inline void KeepLargestFloats(const float* row, size_t count, float* largest) {
  for (size_t c = 0; c < count; ++c) {
    const float old = largest[c];
    largest[c] = !(row[c] <= old) && old == old ? row[c] : old;
  }
}

// Writes the maximum of the rows, computed as in Gather, to scratch.total.
inline ee_status FindLargest(const BagCall& call, size_t bag, size_t* bad_position) {
  const Range range = call.At(bag);
  const BagScratch& scratch = call.scratch;
  float* const row = scratch.row;
  float* const largest = row + scratch.columns;
  bool is_first = true;
  for (size_t i = range.begin; i < range.end; ++i) {
    if (IsPadding(call.table, call.ids.At(i))) continue;
    const RowWriter to{reinterpret_cast<unsigned char*>(is_first ? largest : row), EE_FLOAT32,
                       scratch.columns};
    const ee_status status =
        WriteRows(call.table, call.ids, i, i + 1, to, scratch.total, nullptr, bad_position);
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

// Bag with any innermost loops.
inline ee_status BagBy(const Loops& loops, const Table& all, const Ids& ids, const Bags& bags, size_t begin,
                       size_t end, const Output& out, double* scratch, size_t* bad_position) {
  const FastTable table(all, loops);
  const BagScratch parts(table, scratch);
  const BagCall call{table, ids,
                     bags,  static_cast<size_t>(Load<int64_t>(bags.offsets, end)),
                     parts, {static_cast<unsigned char*>(out.data), out.type, parts.columns}};
  Mix mix(table, call.rows, false, parts.mix);
  const auto write = [&]() __attribute__((noinline)) {  // bags that wait for the product
    mix.Write([&](size_t bag) {
      size_t position;  // not the position of an error: the bag was read before
      SumBag(call, bag, nullptr, nullptr, &position);
      call.Store(bag);
    });
  };
  const bool mixes = Mix::Takes(table) && end - begin >= kFewestMixed;
  ee_status status = EE_OK;
  for (size_t bag = begin; bag < end; ++bag) {
    size_t terms = 0;
    status = bags.mode == BagMode::kMax
                 ? FindLargest(call, bag, bad_position)
                 : SumBag(call, bag, mixes ? mix.Next() : nullptr, &terms, bad_position);
    if (status != EE_OK) break;
    if (terms == 0) {
      call.Store(bag);
      continue;
    }
    mix.Add(bag, terms);
    if (mix.IsFull()) write();
  }
  write();
  return status;
}

inline ee_status Bag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                     const Output& out, double* scratch, size_t* bad_position) {
  return BagBy(OwnLoops(), table, ids, bags, begin, end, out, scratch, bad_position);
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_BAG_H_
