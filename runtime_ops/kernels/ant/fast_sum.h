// Sums of weighted anchors, up to 8 terms at a time: their weights stay in registers, one vector each, over
// all columns. The number of terms is a constant at compile time, so the loop has no other work.
//
// Precision (u = 2^-24 is one rounding to float32, relative to the sum of the absolute values of the terms):
//   piece   a weight times scale 1, two terms 2, four of these in pairs 2       5 u
//   group   up to 32 terms, four pieces in pairs                                7 u
//   more    groups are added in float64, and the sum is rounded once            8 u, and 2^-53 a group
// The bound of 4 ULP is 8 u, for any number of terms.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_

#include "kernels/ant/fast_terms.h"
#include "kernels/fast_numbers.h"
#include "kernels/fast_product.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace edge_embed::ant {

// A part of the columns of the anchors.
struct Part {
  const unsigned char* first;  // of anchor 0
  size_t anchor_bytes;         // bytes from one anchor to the next
  size_t count;                // at least `lanes` of the loops
};

// out[c] = sum over t < terms of factors[t] * anchor[ids[t]][c]; float32 at any alignment.
using SumFunction = void(const Part& part, const uint32_t* ids, const float* factors, unsigned char* out);

// A row of a batch (kernels/ant/fast_batch.h), and its first term.
struct RowTerms {
  uint16_t row, first;
};

// Some columns of the rows of a batch.
struct RowSums {
  const float* tile;        // kTileColumns columns of all anchors
  const uint16_t* anchors;  // place of the anchor of each term in the tile
  const float* weights;     // weight of each term
  unsigned char* out;       // destination of row 0, float32 at any alignment
  size_t step;              // bytes from one row to the next
};

using SumRowsFunction = void(RowSums sums, const RowTerms* rows, size_t count);

constexpr size_t kPiece = 8;
constexpr size_t kTileColumns = 64;

// The innermost loops. They may use a better instruction set than their caller.
struct Loops {
  SumFunction* wholes[2];         // kPiece terms, for float32 and float16 anchors
  SumFunction* adding[2];         // the same, added to what is in out
  SumRowsFunction* rows[kPiece];  // rows of 1 to kPiece terms
  size_t lanes;
  void (*multiply)(const Product& product);
};

namespace {

// SSE2 alone has few and narrow registers, and its code is kept small. WebAssembly is downloaded.
#if (defined(__SSE2__) && !defined(__AVX__)) || defined(__wasm__)
constexpr bool kIsSmall = true;
#else
constexpr bool kIsSmall = false;
#endif

constexpr size_t kGroup = 4 * kPiece;
constexpr size_t kTile =
    512;  // limit of the columns that are summed at a time, so that buffers fit the stack

template <class Anchor>
Floats LoadAnchor(const unsigned char* anchor, size_t column);
template <>
inline Floats LoadAnchor<float>(const unsigned char* anchor, size_t column) {
  return LoadFloats(anchor + column * sizeof(float));
}
template <>
inline Floats LoadAnchor<Half>(const unsigned char* anchor, size_t column) {
  return LoadHalves(anchor + column * sizeof(Half));
}

// The sum of the terms kFirst .. kFirst + kCount - 1, in pairs.
template <class Anchor, size_t kCount, size_t kFirst = 0, size_t kAll>
__attribute__((always_inline)) inline Floats SumAt(const unsigned char* const (&anchors)[kAll],
                                                   const Floats (&weights)[kAll], size_t column) {
  if constexpr (kCount == 1) {
    return weights[kFirst] * LoadAnchor<Anchor>(anchors[kFirst], column);
  } else {
    constexpr size_t kLow = kCount > 4 ? 4 : kCount > 2 ? 2 : 1;
    return SumAt<Anchor, kLow, kFirst>(anchors, weights, column) +
           SumAt<Anchor, kCount - kLow, kFirst + kLow>(anchors, weights, column);
  }
}

// out[c] = sum over t < kCount of weights[t] * anchors[t][c]; float32 at any alignment. With kAdds, the sum
// is added to out[c].
template <size_t kCount, class Anchor, bool kAdds>
__attribute__((always_inline)) inline void SumColumns(const unsigned char* const (&anchors)[kCount],
                                                      const Floats (&weights)[kCount], size_t count,
                                                      unsigned char* out) {
  const auto sum = [&](size_t c) __attribute__((always_inline)) {
    const Floats terms = SumAt<Anchor, kCount>(anchors, weights, c);
    return kAdds ? LoadFloats(out + c * sizeof(float)) + terms : terms;
  };
  const size_t last = count - kLanes;  // computes some columns a second time, with the same result
  const Floats rest = sum(last);
#pragma GCC unroll 1
  for (size_t c = 0; c < last; c += kLanes) StoreFloats(sum(c), out + c * sizeof(float));
  StoreFloats(rest, out + last * sizeof(float));
}

template <size_t kCount, class Anchor, bool kAdds = false>
void SumPiece(const Part& part, const uint32_t* ids, const float* factors, unsigned char* out) {
  const unsigned char* anchors[kCount];
  Floats weights[kCount];
#pragma GCC unroll 8
  for (size_t t = 0; t < kCount; ++t) {
    anchors[t] = part.first + ids[t] * part.anchor_bytes;
    weights[t] = Broadcast(factors[t]);
  }
  SumColumns<kCount, Anchor, kAdds>(anchors, weights, part.count, out);
}

// The same for some columns of many rows. Processors do not predict the next output row, so it is prefetched.
// `sums` is a copy, because a store could change that of the caller.
template <size_t kCount>
void SumRows(RowSums sums, const RowTerms* rows, size_t count) {
  constexpr size_t kRowsAhead = 12;
  for (const RowTerms* row = rows; row < rows + count; ++row) {
    const unsigned char* anchors[kCount];
    Floats weights[kCount];
#pragma GCC unroll 8
    for (size_t t = 0; t < kCount; ++t) {
      anchors[t] = reinterpret_cast<const unsigned char*>(sums.tile + sums.anchors[row->first + t]);
      weights[t] = Broadcast(sums.weights[row->first + t]);
    }
    unsigned char* const out = sums.out + row->row * sums.step;
    PrefetchOutput(out, kTileColumns * sizeof(float), kRowsAhead * sums.step);
    SumColumns<kCount, float, false>(anchors, weights, kTileColumns, out);
  }
}

template <size_t kCount>
constexpr SumRowsFunction* kSumRows = kIsSmall ? nullptr : SumRows<kCount>;

// Sums of fewer than kPiece terms.
template <class Anchor>
constexpr SumFunction* kSumFunctions[kPiece - 1] = {
    SumPiece<1, Anchor>, SumPiece<2, Anchor>, SumPiece<3, Anchor>, SumPiece<4, Anchor>,
    SumPiece<5, Anchor>, SumPiece<6, Anchor>, SumPiece<7, Anchor>};

// Without an instruction for float16, anchors are widened first.
#if defined(__F16C__) || defined(__aarch64__)
using HalfAnchor = Half;
#else
using HalfAnchor = float;
#endif
constexpr Loops kLoops{
    {SumPiece<kPiece, float>, SumPiece<kPiece, HalfAnchor>},
    {SumPiece<kPiece, float, true>, SumPiece<kPiece, HalfAnchor, true>},
    {kSumRows<1>, kSumRows<2>, kSumRows<3>, kSumRows<4>, kSumRows<5>, kSumRows<6>, kSumRows<7>, kSumRows<8>},
    kLanes,
    MultiplyAll};

constexpr size_t kBuffer = kTile + kLanes;  // largest number of columns of a tile

// Float16 without an instruction for it: widens the anchors and calls `sum`, a loop for float32 anchors. A
// second copy of the loops would be large.
__attribute__((noinline)) inline void SumWidened(const Part& part, const uint32_t* ids, const float* factors,
                                                 size_t terms, SumFunction* sum, unsigned char* out) {
  float anchors[kPiece][kBuffer];
  static constexpr uint32_t kInOrder[kPiece] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (size_t t = 0; t < terms; ++t) {
    const unsigned char* from = part.first + ids[t] * part.anchor_bytes;
    for (size_t c = 0;;) {
      StoreFloats(LoadHalves(from + c * sizeof(Half)), &anchors[t][c]);
      if (c + kLanes == part.count) break;
      c = part.count - c < 2 * kLanes ? part.count - kLanes : c + kLanes;
    }
  }
  const Part widened{reinterpret_cast<const unsigned char*>(anchors), sizeof(anchors[0]), part.count};
  sum(widened, kInOrder, factors, out);
}

// A table, and the loops for it.
struct FastTable : Table {
  FastTable(const Table& table, const Loops& chosen) : Table(table), loops(chosen) {}
  const Loops& loops;
};

// kLoops, hidden from the compiler, which would otherwise compile a second copy of all functions with this
// argument.
inline const Loops& OwnLoops() {
  const Loops* loops = &kLoops;
  __asm__("" : "+r"(loops));
  return *loops;
}

// The columns of the anchors in tiles. Tiles are wide if those of all anchors stay in the cache. A tile has
// at least kLanes columns, so the table must have as many.
class Tiles {
 public:
  explicit Tiles(const FastTable& table)
      : anchors_(table.anchors),
        size_(SizeOf(table.anchor_type)),
        all_(static_cast<size_t>(table.embedding_dim)),
        width_(table.num_anchors <= kFewAnchors ? kTile : kTile / 2),
        loops_(table.loops) {}

  // Moves to the next tile; false after the last one. begin() is its first column.
  bool Next() {
    begin_ = end_;
    end_ = all_ - begin_ < width_ + kLanes ? all_ : begin_ + width_;
    part_ = {anchors_ + begin_ * size_, all_ * size_, end_ - begin_};
    return begin_ < all_;
  }

  size_t begin() const { return begin_; }
  size_t count() const { return part_.count; }

  // Sums 1 to kPiece terms. With `adds`, which requires kPiece terms, the sum is added to `out`.
  void Sum(const uint32_t* anchors, const float* weights, size_t terms, bool adds, unsigned char* out) const {
    const bool is_half = size_ == sizeof(Half);
    const Loops& loops = part_.count < loops_.lanes ? kLoops : loops_;
    SumFunction* sum = adds ? loops.adding[is_half] : loops.wholes[is_half];
    if (terms < kPiece)
      sum = is_half ? kSumFunctions<HalfAnchor>[terms - 1] : kSumFunctions<float>[terms - 1];
    if (!kHalvesAreFast && is_half) {
      SumWidened(part_, anchors, weights, terms, sum, out);
    } else {
      sum(part_, anchors, weights, out);
    }
  }

 private:
  static constexpr int64_t kFewAnchors = 256;

  const unsigned char* anchors_;
  size_t size_, all_, width_;
  const Loops& loops_;
  size_t begin_ = 0, end_ = 0;
  Part part_{};
};

// to[a] = kTileColumns columns of anchor a from `column` on, or all columns if there are fewer, for all
// anchors.
__attribute__((noinline)) inline void CopyColumns(const Table& table, size_t column, float* to) {
  const size_t size = SizeOf(table.anchor_type), columns = static_cast<size_t>(table.embedding_dim);
  const size_t count = columns < kTileColumns ? columns : kTileColumns;
  const bool is_plain = table.anchor_type == EE_FLOAT32 && count == kTileColumns;
  const unsigned char* from = table.anchors + column * size;
#pragma GCC unroll 1
  for (int64_t a = 0; a < table.num_anchors; ++a, from += columns * size, to += count) {
    if (is_plain) {
      __builtin_memcpy(to, from, kTileColumns * sizeof(float));  // inline, because the size is a constant
    } else {
      WidenNumbers(from, table.anchor_type, count, to);
    }
  }
}

// sum[c] += part[c], float32 at any alignment.
__attribute__((noinline)) inline void AddFloats(const float* __restrict part, size_t count,
                                                unsigned char* __restrict sum) {
  for (size_t c = 0; c < count; ++c) Store(Load<float>(sum, c) + part[c], sum, c);
}

// out[c] = the sum of 1 to kGroup terms.
__attribute__((noinline)) inline void SumGroup(const Tiles& tiles, const uint32_t* anchors,
                                               const float* weights, size_t terms, unsigned char* out) {
  float numbers[2][kBuffer];
  unsigned char* const second = reinterpret_cast<unsigned char*>(numbers[0]);
  unsigned char* const piece = reinterpret_cast<unsigned char*>(numbers[1]);
  for (size_t t = 0; t < terms; t += 2 * kPiece) {
    unsigned char* const pair = t == 0 ? out : second;
    const size_t left = terms - t;
    tiles.Sum(anchors + t, weights + t, left < kPiece ? left : kPiece, false, pair);
    if (left > kPiece) {
      const size_t next = left - kPiece;
      const bool is_whole = next >= kPiece;
      tiles.Sum(anchors + t + kPiece, weights + t + kPiece, is_whole ? kPiece : next, is_whole,
                is_whole ? pair : piece);
      if (!is_whole) AddFloats(numbers[1], tiles.count(), pair);
    }
    if (t > 0) AddFloats(numbers[0], tiles.count(), out);
  }
}

// total[c] += part[c]
__attribute__((noinline)) inline void AddPart(const float* __restrict part, size_t count,
                                              double* __restrict total) {
  for (size_t c = 0; c < count; ++c) total[c] += static_cast<double>(part[c]);
}

// total[c] += the sum of the terms, for all columns.
__attribute__((noinline)) inline void AddToTotal(const FastTable& table, const uint32_t* anchors,
                                                 const float* weights, size_t count, double* total) {
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  if (columns < kLanes) {
    for (size_t t = 0; t < count; ++t) {
      AddScaled(static_cast<double>(weights[t]), table.anchors, table.anchor_type, anchors[t] * columns,
                columns, total);
    }
    return;
  }
  float group[kBuffer];
  for (Tiles tiles(table); tiles.Next();) {
    double* sums = total + tiles.begin();
    for (size_t t = 0; t < count; t += kGroup) {
      SumGroup(tiles, anchors + t, weights + t, count - t < kGroup ? count - t : kGroup,
               reinterpret_cast<unsigned char*>(group));
      AddPart(group, tiles.count(), sums);
    }
  }
}

// out[c] = total[c], rounded once.
__attribute__((noinline)) inline void StoreTotal(const double* __restrict total, size_t count, ee_type type,
                                                 unsigned char* __restrict out) {
  if (type != EE_FLOAT32) {
    Narrow(total, count, out, type, 0);
    return;
  }
  for (size_t c = 0; c < count; ++c) Store(static_cast<float>(total[c]), out, c);
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_
