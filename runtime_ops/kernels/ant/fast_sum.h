// Sums of weighted anchors, up to 8 terms at a time: their weights stay in registers, one vector each, while
// the columns pass by. The terms are known when it is compiled, so nothing else happens in between.
//
// How precise (u = 2^-24, what one rounding to float32 costs; u times the sum of the terms' magnitudes):
//   piece   a weight times scale 1, two terms 2, four of these two by two 2      5 u
//   group   up to 32 terms, four pieces two by two                               7 u
//   more    groups are added in float64, and the sum is rounded once             8 u, and 2^-53 a group
// which is no more than the 8 u that 4 units in the last place are, however many terms there are.
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_SUM_H_

#include "kernels/ant/fast_terms.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kPiece = 8;
constexpr size_t kGroup = 4 * kPiece;
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

// The sum of the terms kFirst .. kFirst + kCount - 1, two by two.
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
  const size_t count = part.count;  // a store could change what `part` refers to
  size_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    StoreFloats(SumAt<Anchor, kCount>(anchors, weights, c), out + c * sizeof(float));
  }
  if (c == count) return;
  c = count - kLanes;  // some columns a second time, with the same result
  StoreFloats(SumAt<Anchor, kCount>(anchors, weights, c), out + c * sizeof(float));
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

// sum[c] += part[c], float32 at any alignment.
__attribute__((noinline)) inline void AddFloats(const float* __restrict part, size_t count,
                                                unsigned char* __restrict sum) {
  for (size_t c = 0; c < count; ++c) Store(Load<float>(sum, c) + part[c], sum, c);
}

// out[c] = the sum of 1 to kGroup terms.
__attribute__((noinline)) inline void SumGroup(const Tiles& tiles, const uint32_t* anchors,
                                               const float* weights, size_t terms, unsigned char* out) {
  float second[kBuffer], piece[kBuffer];
  for (size_t t = 0; t < terms; t += 2 * kPiece) {
    unsigned char* const pair = t == 0 ? out : reinterpret_cast<unsigned char*>(second);
    const size_t left = terms - t;
    tiles.Sum(anchors + t, weights + t, left < kPiece ? left : kPiece, pair);
    if (left > kPiece) {
      const size_t next = left - kPiece;
      tiles.Sum(anchors + t + kPiece, weights + t + kPiece, next < kPiece ? next : kPiece, piece);
      AddFloats(piece, tiles.count(), pair);
    }
    if (t > 0) AddFloats(second, tiles.count(), out);
  }
}

// total[c] += part[c]
__attribute__((noinline)) inline void AddPart(const float* __restrict part, size_t count,
                                              double* __restrict total) {
  for (size_t c = 0; c < count; ++c) total[c] += static_cast<double>(part[c]);
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
  float group[kBuffer];
  for (Tiles tiles(table, kTile); tiles.Next();) {
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
