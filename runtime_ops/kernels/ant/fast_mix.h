// Bags that name most anchors, as a product of matrices, for which an anchor is read once for several of
// them:
//
//   out[b, :] = mix[b, :] @ anchors,   mix[b, a] = the sum of the weights that bag b has for anchor a
//
// An anchor that a bag does not name is multiplied by 0, which is nothing only where the anchor is finite. So
// results that are not finite are none, and their bags are made from their terms.
//
// Rows of a gather are not made like this: a row has few terms, which allow for short runs only (below), and
// the terms alone were faster (README.md).
//
// How precise: a sum of weights is rounded once, and a term as kernels/fast_product.h says. Runs are as long
// as the 8 roundings of sums of up to 64 terms, and terms / 8 for more, let them be (kernels/use.h).
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_

#include "kernels/ant/fast_gather.h"
#include "kernels/fast_product.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kMixNumbers = 1 << 13;  // of all bags of a product: more would not stay in cache
constexpr size_t kMixBags = 64, kFewestMixBags = 8;
constexpr size_t kMixColumns = 64;  // of float16 anchors that are widened at a time

// Of a sum of `terms` terms; 0: none is precise enough.
inline size_t LongestRun(size_t anchors, size_t terms) {
  const size_t allowed = terms < 64 ? 8 : terms / 8;
  for (size_t run = 16; run > 2; run /= 2) {
    size_t roundings = 1 + run;
    for (size_t runs = (anchors + run - 1) / run; runs > 1; runs -= runs / 2) ++roundings;
    if (roundings <= allowed) return run;
  }
  return 0;
}

// Whether float32 numbers, kLanes at least, are all finite.
__attribute__((noinline)) inline bool AreFinite(const unsigned char* numbers, size_t count) {
  constexpr uint32_t kInfinity = 255U << 23;
  Words found{};
  for (size_t c = 0; c < count; c += kLanes) {
    const size_t from = c + kLanes <= count ? c : count - kLanes;
    found |= (Words)(((Words)LoadFloats(numbers + from * sizeof(float)) & kInfinity) == kInfinity);
  }
  return !Any(found);
}

// The weights of some bags, and their product.
class Mix {
 public:
  Mix(const FastTable& table, double* scratch)
      : table_(table),
        anchors_(static_cast<size_t>(table.num_anchors)),
        columns_(static_cast<size_t>(table.embedding_dim)),
        weights_(AlignedFloats(scratch)) {}

  static bool Takes(const Table& table) {
    return !kIsSmall && table.num_anchors <= static_cast<int64_t>(kMixNumbers / kFewestMixBags) &&
           table.embedding_dim >= static_cast<int64_t>(kLanes);
  }
  static uint64_t Doubles(const Table& table) {
    if (!Takes(table)) return 0;
    const uint64_t widened = (static_cast<uint64_t>(table.num_anchors) + kMixBags) * kMixColumns;
    return (kMixNumbers + widened) / 2 + kAlignment;
  }

  size_t capacity() const {
    const size_t bags = kMixNumbers / anchors_;
    return bags < kMixBags ? bags : kMixBags;
  }
  float* Row(size_t bag) const { return weights_ + bag * anchors_; }

  // Writes `bags` rows from rows.At(first, 0) on, and returns a bit for each that is not finite.
  uint64_t Write(size_t bags, size_t run, const RowWriter& rows, size_t first) const {
    if (kIsSmall) return 0;
    Product product;
    product.state = reinterpret_cast<const unsigned char*>(weights_);
    product.row_step = anchors_ * sizeof(float);
    product.inner_step = sizeof(float);
    product.rows = bags;
    product.inner = anchors_;
    product.run = run;
    product.slice = table_.anchors;
    product.columns = columns_;
    product.out = rows.At(first, 0);
    if (table_.anchor_type == EE_FLOAT32 && rows.type == EE_FLOAT32) return Multiply(product);
    return WriteTiles(product, rows, first);
  }

 private:
  uint64_t Multiply(const Product& product) const {
    table_.loops.multiply(product);
    uint64_t bad = 0;
    for (size_t b = 0; b < product.rows; ++b) {
      const unsigned char* const row = product.out + b * product.columns * sizeof(float);
      bad |= static_cast<uint64_t>(!AreFinite(row, product.columns)) << b;
    }
    return bad;
  }

  // Some columns at a time, in float32; the last ones begin further back, over some that are made already.
  uint64_t WriteTiles(Product product, const RowWriter& rows, size_t first) const {
    const size_t width = columns_ < kMixColumns ? columns_ : kMixColumns;
    unsigned char* const slice = reinterpret_cast<unsigned char*>(weights_ + kMixNumbers);
    product.slice = slice;
    product.columns = width;
    product.out = slice + anchors_ * width * sizeof(float);
    uint64_t bad = 0;
    for (size_t column = 0; column < columns_; column += width) {
      const size_t c = column + width <= columns_ ? column : columns_ - width;
      for (size_t a = 0; a < anchors_; ++a) {
        const unsigned char* const anchor = table_.anchors + (a * columns_ + c) * SizeOf(table_.anchor_type);
        WidenNumbers(anchor, table_.anchor_type, width, slice + a * width * sizeof(float));
      }
      bad |= Multiply(product);
      for (size_t b = 0; b < product.rows; ++b) {
        const Output row{rows.At(first + b, c), rows.type};
        NarrowNumbers(product.out + b * width * sizeof(float), width, row, 0);
      }
    }
    return bad;
  }

  const FastTable& table_;
  size_t anchors_, columns_;
  float* weights_;
};

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_MIX_H_
