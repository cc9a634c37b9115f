// Sums of weighted anchors, up to 8 terms at a time: their weights stay in registers, one vector each, while
// the columns pass by. The terms are known when it is compiled, so nothing else happens in between.
//
// How precise (u = 2^-24, what one rounding to float32 costs; u times the sum of the terms' magnitudes):
//   piece   a weight times scale 1, four terms in a row 4, the two halves 1      6 u
//   short   up to 16 terms, two pieces, their sum                                7 u
//   long    pieces are added in float64, and the sum is rounded once             7 u, and 2^-53 a piece
// which is below the 8 u that 4 units in the last place are, however many terms there are.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_

#include "kernels/ant/fast_terms.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kPiece = 8;
constexpr size_t kShort = 2 * kPiece;
constexpr size_t kTile = 256;  // columns at most that are summed at a time, so that buffers fit the stack

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

template <size_t kCount, class Anchor>
__attribute__((always_inline)) inline Floats SumAt(const unsigned char* const (&anchors)[kCount],
                                                   const Floats (&weights)[kCount], size_t column) {
  constexpr size_t kHalf = kCount <= 4 ? kCount : 4;
  Floats low = weights[0] * LoadAnchor<Anchor>(anchors[0], column);
#pragma GCC unroll 8
  for (size_t t = 1; t < kHalf; ++t) low += weights[t] * LoadAnchor<Anchor>(anchors[t], column);
  if constexpr (kCount > kHalf) {
    Floats high = weights[kHalf] * LoadAnchor<Anchor>(anchors[kHalf], column);
#pragma GCC unroll 8
    for (size_t t = kHalf + 1; t < kCount; ++t) high += weights[t] * LoadAnchor<Anchor>(anchors[t], column);
    low += high;
  }
  return low;
}

// A part of the columns of the anchors.
struct Part {
  const unsigned char* first;  // of anchor 0
  size_t anchor_bytes;         // from one anchor to the next
  size_t count;                // kLanes at least
};

// out[c] = sum over t < kCount of weights[t] * anchor[anchors[t]][c]; float32 at any alignment.
template <size_t kCount, class Anchor>
void SumPiece(const Part& part, const uint32_t* ids, const float* factors, unsigned char* out) {
  const unsigned char* anchors[kCount];
  Floats weights[kCount];
#pragma GCC unroll 8
  for (size_t t = 0; t < kCount; ++t) {
    anchors[t] = part.first + ids[t] * part.anchor_bytes;
    weights[t] = Broadcast(factors[t]);
  }
  size_t c = 0;
  for (; c + kLanes <= part.count; c += kLanes) {
    StoreFloats(SumAt<kCount, Anchor>(anchors, weights, c), out + c * sizeof(float));
  }
  if (c == part.count) return;
  c = part.count - kLanes;  // some columns a second time, with the same result
  StoreFloats(SumAt<kCount, Anchor>(anchors, weights, c), out + c * sizeof(float));
}

using PieceFunction = void(const Part&, const uint32_t*, const float*, unsigned char*);

template <class Anchor>
constexpr PieceFunction* kPieceFunctions[kPiece] = {
    SumPiece<1, Anchor>, SumPiece<2, Anchor>, SumPiece<3, Anchor>, SumPiece<4, Anchor>,
    SumPiece<5, Anchor>, SumPiece<6, Anchor>, SumPiece<7, Anchor>, SumPiece<8, Anchor>};

constexpr size_t kBuffer = kTile + kLanes;  // columns that a tile may have

// The same for float16 where there is no instruction for it, and 8 copies of what takes its place would be
// large.
__attribute__((noinline)) inline void SumWidened(const Part& part, const uint32_t* ids, const float* factors,
                                                 size_t terms, unsigned char* out) {
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
  kPieceFunctions<float>[terms - 1](widened, kInOrder, factors, out);
}

inline PieceFunction* const* FunctionsFor(ee_type type) {
  if constexpr (kHalvesAreFast) {
    if (type == EE_FLOAT16) return kPieceFunctions<Half>;
  }
  return kPieceFunctions<float>;
}

// The columns of the anchors in tiles: all have kLanes columns at least, for which there must be as many.
class Tiles {
 public:
  Tiles(const Table& table, size_t width)
      : anchors_(table.anchors),
        size_(SizeOf(table.anchor_type)),
        all_(static_cast<size_t>(table.embedding_dim)),
        width_(width),
        functions_(FunctionsFor(table.anchor_type)) {}

  // One after the other: begin() is the first column, Next() is false after the last tile.
  bool Next() {
    begin_ = end_;
    end_ = all_ - begin_ < width_ + kLanes ? all_ : begin_ + width_;
    part_ = {anchors_ + begin_ * size_, all_ * size_, end_ - begin_};
    return begin_ < all_;
  }

  size_t begin() const { return begin_; }
  size_t count() const { return part_.count; }

  // 1 to kPiece terms.
  void Sum(const uint32_t* anchors, const float* weights, size_t terms, void* out) const {
    if (!kHalvesAreFast && size_ == sizeof(Half)) {
      SumWidened(part_, anchors, weights, terms, static_cast<unsigned char*>(out));
      return;
    }
    functions_[terms - 1](part_, anchors, weights, static_cast<unsigned char*>(out));
  }

 private:
  const unsigned char* anchors_;
  size_t size_, all_, width_;
  PieceFunction* const* functions_;
  size_t begin_ = 0, end_ = 0;
  Part part_{};
};

// total[c] += piece[c]
__attribute__((noinline)) inline void AddPiece(const float* piece, size_t count, double* total) {
  for (size_t c = 0; c < count; ++c) total[c] += static_cast<double>(piece[c]);
}

// total[c] += the terms' sum, for all columns.
__attribute__((noinline)) inline void AddToTotal(const Table& table, const uint32_t* anchors,
                                                 const float* weights, size_t count, double* total) {
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  if (columns < kLanes) {
    for (size_t t = 0; t < count; ++t) {
      AddScaled(static_cast<double>(weights[t]), table.anchors, table.anchor_type, anchors[t] * columns,
                columns, total);
    }
    return;
  }
  float part[kBuffer];
  for (Tiles tiles(table, kTile); tiles.Next();) {
    double* sums = total + tiles.begin();
    for (size_t t = 0; t < count; t += kPiece) {
      tiles.Sum(anchors + t, weights + t, count - t < kPiece ? count - t : kPiece, part);
      AddPiece(part, tiles.count(), sums);
    }
  }
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_
