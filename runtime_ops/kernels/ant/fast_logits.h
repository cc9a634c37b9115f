// The anchors are multiplied with the states once, before the first row:
//
//   products[a][b] = weight_scale * sum over c of hidden[b, c] * anchor a[c]
//   logits[b, i] = sum over t of weights[t] * products[anchor of t][b]
//
// A row then needs one multiplication for each of its terms. Products of a block of states are contiguous and
// form one or several vectors. A single state uses scalars.
//
// Precision: the products are summed in float64 and rounded once. With 8 terms in two halves, a term passes 1
// + 4 + 1 further roundings. With more terms, it passes one more, as pieces are added in float64. The error
// is 7 u of the sum of the absolute values of the terms (u = 2^-24). The bound of 4 ULP is 8 u.
// magnitudes, below the 8 u that 4 units in the last place are (u = 2^-24).
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_LOGITS_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_LOGITS_H_

#include "kernels/ant/fast_gather.h"

namespace edge_embed::ant {
namespace {

constexpr size_t kStates = 32;            // of the largest block
constexpr size_t kMaxProducts = 1 << 16;  // numbers; more would not stay in the cache

struct LogitsCall {
  const Table& table;
  LogitsInput input;
  LogitsOutput logits;
};

// sum over c of a[c] * b[c]; a at any alignment. Independent sums do not wait for each other.
__attribute__((noinline)) inline double DotInDouble(const float* a, const double* b, size_t count) {
  constexpr size_t kSums = 2 * kLanes;
  double sums[kSums] = {};
  size_t c = 0;
  for (; c + kSums <= count; c += kSums) {
    for (size_t lane = 0; lane < kSums; ++lane)
      sums[lane] += static_cast<double>(Load<float>(a, c + lane)) * b[c + lane];
  }
  double total = 0;
  for (; c < count; ++c) total += static_cast<double>(Load<float>(a, c)) * b[c];
  for (const double sum : sums) total += sum;
  return total;
}

// products[a][lane] of `count` states; zero in the other lanes.
inline void MultiplyAnchors(const Table& table, const float* hidden, size_t count, size_t lanes,
                            double* anchor, float* products) {
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  for (size_t a = 0; a < static_cast<size_t>(table.num_anchors); ++a) {
    Widen(table.anchors, table.anchor_type, a * columns, 1, columns, anchor);
    for (size_t b = 0; b < lanes; ++b) {
      const double product = b < count ? DotInDouble(hidden + b * columns, anchor, columns) : 0.0;
      products[a * lanes + b] = static_cast<float>(product * static_cast<double>(table.weight_scale));
    }
  }
}

template <size_t kCount>
__attribute__((always_inline)) inline void AddProducts(const float* products, const uint32_t* anchors,
                                                       const float* weights, size_t terms,
                                                       Floats (&sums)[kCount]) {
  for (size_t t = 0; t < terms; ++t) {
    const float* from = products + anchors[t] * (kCount * kLanes);
    for (size_t k = 0; k < kCount; ++k) sums[k] += weights[t] * LoadFloats(from + k * kLanes);
  }
}

// The logits of a row for a piece of its terms, in two halves, for kCount vectors of states.
template <size_t kCount>
struct VectorLogits {
  static constexpr size_t kStatesAtOnce = kCount * kLanes;

  static __attribute__((always_inline)) void Sum(const float* products, const uint32_t* anchors,
                                                 const float* weights, size_t terms, float* out) {
    constexpr size_t kHalf = kPiece / 2;
    Floats sums[kCount] = {};
    for (size_t t = 0; t < terms; t += kHalf) {
      Floats part[kCount] = {};
      AddProducts(products, anchors + t, weights + t, terms - t < kHalf ? terms - t : kHalf, part);
      for (size_t k = 0; k < kCount; ++k) sums[k] += part[k];
    }
    __builtin_memcpy(out, sums, sizeof(sums));
  }
};

// The same for a single state: two terms in each of four sums, and at most three separate terms.
struct ScalarLogits {
  static constexpr size_t kStatesAtOnce = 1;

  static __attribute__((always_inline)) void Sum(const float* products, const uint32_t* anchors,
                                                 const float* weights, size_t terms, float* out) {
    float sums[4] = {};
    size_t t = 0;
    for (; t + 4 <= terms; t += 4) {
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; ++k) sums[k] += weights[t + k] * products[anchors[t + k]];
    }
    float rest = 0;
    for (; t < terms; ++t) rest += weights[t] * products[anchors[t]];
    *out = (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest;
  }
};

// Number of states that are processed at a time, a row of `products`; 0 if there are too many anchors for a
// table.
inline size_t ChooseLanes(const Table& table, size_t states) {
  const uint64_t anchors = static_cast<uint64_t>(table.num_anchors);
  constexpr size_t kFew = kStates / 2 < 2 * kLanes ? kStates / 2 : 2 * kLanes;  // in one or two vectors
  if (states > kFew && anchors <= kMaxProducts / kStates) return kStates;
  constexpr size_t kWide = kSideBySide * kLanes;
  if (states > kLanes && anchors <= kMaxProducts / kWide) return kWide;
  if (states > 1 && anchors <= kMaxProducts / kLanes) return kLanes;
  return anchors <= kMaxProducts ? 1 : 0;
}

template <class Logits>
void SumBlock(const Block& block, const float* products, float* out) {
  constexpr size_t kAll = Logits::kStatesAtOnce;
  const uint32_t* anchors = block.terms.anchors;
  const float* weights = block.terms.weights;
  for (size_t j = 0; j < block.rows; ++j, out += kAll) {
    const size_t terms = block.Count(j);
    double total[kAll];
    if (terms > kPiece) Fill(0.0, kAll, total);
    size_t t = 0;
    do {
      const size_t count = terms - t < kPiece ? terms - t : kPiece;
      Logits::Sum(products, anchors + t, weights + t, count, out);
      if (terms > kPiece) AddPart(out, kAll, total);
      t += count;
    } while (t < terms);
    if (terms > kPiece) Narrow(total, kAll, out, EE_FLOAT32, 0);
    anchors += terms;
    weights += terms;
  }
}

// out[row of the block][lane]
inline void SumBlockOf(size_t lanes, const Block& block, const float* products, float* out) {
  if (lanes == 1) {
    SumBlock<ScalarLogits>(block, products, out);
  } else if (lanes == kLanes) {
    SumBlock<VectorLogits<1>>(block, products, out);
  } else if (lanes == kSideBySide * kLanes) {
    SumBlock<VectorLogits<kSideBySide>>(block, products, out);
  } else {
    SumBlock<VectorLogits<kStates / kLanes>>(block, products, out);
  }
}

// A row that is too long for a block, as a block of its own.
inline ee_status SumLongLogits(const Table& table, size_t lanes, const float* products, Block* block,
                               float* out) {
  double total[kStates] = {};
  Range row = block->ranges[0];
  while (row.begin < row.end) {
    const ee_status status = ReadPart(table, 1.0F, &row, block);
    if (status != EE_OK) return status;
    SumBlockOf(lanes, *block, products, out);
    AddPart(out, lanes, total);
  }
  Narrow(total, lanes, out, EE_FLOAT32, 0);
  return EE_OK;
}

struct AllRows {
  int64_t At(size_t row) const { return static_cast<int64_t>(row); }
};

// Transposes four rows of tile[row][lane] into four columns of out[lane][row].
typedef float Quad __attribute__((vector_size(16)));
typedef float UnalignedQuad __attribute__((vector_size(16), aligned(1), may_alias));

inline void TransposeQuads(const float* tile, size_t lanes, float (&out)[4][kBlockRows], size_t row) {
  const auto* const from = reinterpret_cast<const UnalignedQuad*>(tile);
  const Quad a = from[0], b = from[lanes / 4], c = from[lanes / 2], d = from[lanes / 4 * 3];
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const auto store = [row](Quad value, float* to) { *reinterpret_cast<UnalignedQuad*>(to + row) = value; };
  store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), out[0]);
  store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), out[1]);
  store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), out[2]);
  store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), out[3]);
}

// Writes a tile of logits[row][lane] of a block to the output, where the rows of a state are contiguous.
inline void WriteLogits(const LogitsCall& call, const float* tile, size_t lanes, size_t first, size_t states,
                        size_t row, size_t rows) {
  const Output& out = call.logits.out;
  float columns[4][kBlockRows];
  for (size_t b = 0; b < states; ++b) {
    if (lanes > 1 && b % 4 == 0) {
      for (size_t r = 0; r < rows; r += 4) TransposeQuads(tile + r * lanes + b, lanes, columns, r);
    }
    NarrowNumbers(lanes > 1 ? columns[b % 4] : tile, rows, out, call.logits.At(first + b, row));
  }
}

// Logits of the states first .. first + states - 1 for the rows begin .. *end - 1. At a damaged row, *end
// becomes that row.
inline ee_status LogitsByProducts(const LogitsCall& call, size_t lanes, size_t first, size_t states,
                                  size_t begin, size_t* end, const float* products) {
  Block block;
  float tile[kBlockRows * kStates];
  __builtin_memset(tile, 0, sizeof(tile));  // a transpose reads four rows, also past the last one
  for (size_t row = begin; row < *end; row += block.rows) {
    ee_status status = FillBlock(call.table, AllRows{}, row, *end, row, 1.0F, &block);
    if (status == EE_OK && block.rows == 0) {
      status = SumLongLogits(call.table, lanes, products, &block, tile);
      if (status != EE_OK) block.rows = 0;
    } else {
      SumBlockOf(lanes, block, products, tile);
    }
    WriteLogits(call, tile, lanes, first, states, row, block.rows);
    if (status != EE_OK) {
      *end = row + block.rows;
      return status;
    }
  }
  return EE_OK;
}

// Logits from one row after another, multiplied with every state.
inline ee_status LogitsByRows(const LogitsCall& call, size_t begin, size_t end, double* total,
                              size_t* bad_position) {
  const FastTable table(call.table, kLoops);
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  Block block;
  for (size_t row = begin; row < end; ++row) {
    Range range;
    ee_status status = FindRow(table, static_cast<int64_t>(row), &range);
    if (status == EE_OK) status = SumLongRow(table, range, &block, total);
    if (status != EE_OK) {
      *bad_position = row;
      return status;
    }
    for (size_t b = 0; b < call.input.batch; ++b) {
      const double logit = DotInDouble(call.input.hidden + b * columns, total, columns);
      Narrow(&logit, 1, call.logits.out.data, call.logits.out.type, call.logits.At(b, row));
    }
  }
  return EE_OK;
}

// True if the table of products is less work than the rows. A sum in float64 counts twice.
inline bool ProductsPay(const Table& table, size_t batch) {
  const double anchors = static_cast<double>(table.num_anchors), states = static_cast<double>(batch);
  const double columns = static_cast<double>(table.embedding_dim);
  const double all = static_cast<double>(table.num_embeddings);
  const double terms = static_cast<double>(table.num_weights) / all;
  return ChooseLanes(table, batch) > 0 &&
         (2 * anchors * columns + all * terms) * states < all * columns * (2 * states + terms);
}

// Calls work(first state, states, lanes, floats of the products before) for one block of states after
// another.
template <class Work>
void ForStates(const Table& table, size_t batch, const Work& work) {
  size_t at = 0;
  for (size_t first = 0, states; first < batch; first += states) {
    const size_t left = batch - first, lanes = ChooseLanes(table, left);
    states = left < lanes ? left : lanes;
    work(first, states, lanes, at);
    at += static_cast<size_t>(table.num_anchors) * lanes;
  }
}

// Doubles of the products of all states, of one anchor, and of the alignment. The number of lanes exceeds the
// number of states by at most a block.
inline Size PreparedDoubles(const Table& table, size_t batch) {
  if (ChooseLanes(table, 1) == 0) return 0;
  const Size products = Size(static_cast<uint64_t>(table.num_anchors)) * (batch / 2 + kStates);
  return products + static_cast<uint64_t>(table.embedding_dim) + kAlignment;
}

inline void Prepare(const Table& table, const float* hidden, size_t batch, double* prepared) {
  if (!ProductsPay(table, batch)) return;
  const size_t columns = static_cast<size_t>(table.embedding_dim);
  float* const products = AlignedFloats(prepared + columns);
  ForStates(table, batch, [&](size_t first, size_t states, size_t lanes, size_t at) {
    MultiplyAnchors(table, hidden + first * columns, states, lanes, prepared, products + at);
  });
}

inline Size LogitsScratch(const Table& table) { return static_cast<uint64_t>(table.embedding_dim); }

inline ee_status LogitsOf(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                          const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  const LogitsCall call{table, input, logits};
  if (!ProductsPay(table, input.batch)) return LogitsByRows(call, begin, end, scratch, bad_position);
  const float* const products = AlignedFloats(input.prepared + table.embedding_dim);
  ee_status status = EE_OK;
  ForStates(table, input.batch, [&](size_t first, size_t states, size_t lanes, size_t at) {
    const ee_status found = LogitsByProducts(call, lanes, first, states, begin, &end, products + at);
    if (found != EE_OK) {
      status = found;
      *bad_position = end;
    }
  });
  return status;
}

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_LOGITS_H_
