// Bags and rows that name most anchors, as a product of matrices, which reads an anchor once for several of
// them:
//
//   out[b, :] = mix[b, :] @ anchors,   mix[b, a] = the sum of the weights of b for anchor a
//
// An anchor that b does not name is multiplied by 0, which is correct only if the anchor is finite. Results
// that are not finite are therefore computed again from their terms.
//
// Precision: a weight, or a sum of weights, is rounded once, and a term is rounded as kernels/fast_product.h
// states. The length of a run is chosen for the bound of kernels/use.h: 8 roundings for sums of up to 32
// terms, and terms / 4 for more.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_

#include "kernels/ant/fast_rows.h"
#include "kernels/fast_product.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMixNumbers =
    1 << 15;  // numbers of all results of a product; more would not stay in the cache
constexpr size_t kFewestMixed = 8, kMixRows = 64;  // results
constexpr int64_t kMostMixAnchors = 1024;

// The longest run for a sum of `terms` terms; 0 if no run is precise enough.
__attribute__((noinline)) inline size_t LongestRun(size_t anchors, size_t terms) {
  const size_t allowed = terms < 32 ? 8 : terms / 4;
  for (size_t run = 16; run > 2; run /= 2) {
    size_t roundings = 1 + run;
    for (size_t runs = (anchors + run - 1) / run; runs > 1; runs -= runs / 2) ++roundings;
    if (roundings <= allowed) return run;
  }
  return 0;
}

// True if all float32 numbers are finite; `count` is at least kLanes.
__attribute__((noinline)) inline bool AreFinite(const unsigned char* numbers, size_t count) {
  constexpr uint32_t kInfinity = 255U << 23;
  Words found{};
  for (size_t c = 0; c < count; c += kLanes) {
    const size_t from = c + kLanes <= count ? c : count - kLanes;
    found |= (Words)(((Words)LoadFloats(numbers + from * sizeof(float)) & kInfinity) == kInfinity);
  }
  return !Any(found);
}

// Results that wait for others, to be computed by one product.
class Mix {
 public:
  // With `copies`, the product reads a copy of some columns of all anchors. In the original, the columns of a
  // tile occupy few sets of a cache. For few results, the copy costs more than it saves. Float16 and results
  // that are not contiguous always use it.
  Mix(const FastTable& table, const RowWriter& rows, bool copies, double* scratch)
      : table_(table),
        rows_(rows),
        copies_(copies),
        anchors_(static_cast<size_t>(table.num_anchors)),
        weights_(AlignedFloats(scratch)) {}

  static bool Takes(const Table& table) {
    return !kIsSmall && table.num_anchors <= kMostMixAnchors &&
           table.embedding_dim >= static_cast<int64_t>(kLanes);
  }
  static uint64_t Doubles(const Table& table) {
    if (!Takes(table)) return 0;
    const size_t anchors = static_cast<size_t>(table.num_anchors);
    return (Capacity(anchors) * anchors + (anchors + kMixRows) * kTileColumns) / 2 + kAlignment;
  }

  // The weights of the next result, one for each anchor.
  float* Next() const { return weights_ + count_ * anchors_; }

  // Adds the result of these weights, the sums of `terms` terms, for row `row` of the output.
  void Add(size_t row, size_t terms) {
    if (count_ == 0 || terms < fewest_) fewest_ = terms;
    waiting_[count_++] = row;
  }
  bool IsFull() const { return count_ == Capacity(anchors_); }

  // Writes all results, and calls redo(row) for those that are not finite, or for all if they are too few. It
  // is then empty.
  template <class Redo>
  void Write(const Redo& redo) {
    uint64_t left = count_ < kFewestMixed ? (1U << count_) - 1 : Multiply();
    for (; left != 0; left &= left - 1) redo(waiting_[__builtin_ctzll(left)]);
    count_ = 0;
  }

 private:
  static size_t Capacity(size_t anchors) {
    return kMixRows * anchors <= kMixNumbers ? kMixRows : kMixNumbers / anchors;
  }

  // Computes some columns at a time. The last tile begins earlier and computes some columns again. Returns a
  // bit for each result that is not finite.
  __attribute__((noinline)) uint64_t Multiply() const {
    if (kIsSmall) return 0;
    const bool copies = copies_ || table_.anchor_type != EE_FLOAT32 || rows_.type != EE_FLOAT32 ||
                        waiting_[count_ - 1] - waiting_[0] >= count_;
    const size_t columns = rows_.columns;
    const size_t width = copies && columns > kTileColumns ? kTileColumns : columns;
    float* const slice = weights_ + Capacity(anchors_) * anchors_;
    Product product;
    product.state = reinterpret_cast<const unsigned char*>(weights_);
    product.row_step = anchors_ * sizeof(float);
    product.inner_step = sizeof(float);
    product.rows = count_;
    product.inner = anchors_;
    product.run = LongestRun(anchors_, fewest_);
    product.slice = copies ? reinterpret_cast<const unsigned char*>(slice) : table_.anchors;
    product.columns = width;
    product.out =
        copies ? reinterpret_cast<unsigned char*>(slice + anchors_ * width) : rows_.At(waiting_[0], 0);
    uint64_t bad = 0;
    for (size_t column = 0; column < columns; column += width) {
      const size_t c = column + width <= columns ? column : columns - width;
      if (copies) CopyColumns(table_, c, slice);
      table_.loops.multiply(product);
      for (size_t k = 0; k < count_; ++k) {
        const unsigned char* const part = product.out + k * width * sizeof(float);
        bad |= static_cast<uint64_t>(!AreFinite(part, width)) << k;
        if (copies) NarrowNumbers(part, width, {rows_.At(waiting_[k], c), rows_.type}, 0);
      }
    }
    return bad;
  }

  const FastTable& table_;
  const RowWriter& rows_;
  bool copies_;
  size_t anchors_;
  float* weights_;
  size_t waiting_[kMixRows];  // rows of the output
  size_t count_ = 0, fewest_ = 0;
};

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_
