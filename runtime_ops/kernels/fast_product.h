// out[p, c] = sum over r of state[p, r] * slice[r, c], in float32.
//
// Rounding: a run adds terms one by one, and runs are added in pairs like a binary tree. A term therefore
// passes run + ceil(log2(runs)) roundings, each 2^-24 of the partial sum. The caller states the length of a
// run.
#ifndef EDGE_EMBED_KERNELS_FAST_PRODUCT_H_
#define EDGE_EMBED_KERNELS_FAST_PRODUCT_H_

#include "kernels/simd.h"

namespace edge_embed {

struct Product {
  const unsigned char* state;  // float32 [rows, inner], steps in bytes
  size_t row_step, inner_step;
  const unsigned char* slice;  // float32 [inner, columns], rows contiguous
  size_t rows, inner, columns;
  size_t run;
  unsigned char* out;  // float32 [rows, columns]
};

namespace {

// Vectors may be narrower than a register: the last core of TT has few columns.
template <size_t kWidth>
struct Vector {
  typedef float Type __attribute__((vector_size(kWidth * sizeof(float))));
};
template <>
struct Vector<1> {
  typedef float Type;
};

template <class V>
__attribute__((always_inline)) inline V LoadVector(const unsigned char* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

template <class V>
__attribute__((always_inline)) inline void StoreVector(const V& value, unsigned char* to) {
  __builtin_memcpy(to, &value, sizeof(value));
}

// Sums of `kCount` vectors over many runs, added in pairs. If bit l of the number of runs is set, pending[l]
// is the sum of 2^l runs. When all levels are full, their sum becomes the last level.
template <class V, size_t kCount>
class PairwiseSum {
 public:
  __attribute__((always_inline)) void Add(V (&run)[kCount]) {
    size_t level = LowestBit(~runs_);
#pragma GCC unroll 1
    for (size_t full = 0; full < level; ++full) AddPending(full, run);
    if (level == kLevels) {
      --level;
      runs_ = 0;
    }
    for (size_t i = 0; i < kCount; ++i) pending_[level][i] = run[i];
    runs_ = level + 1 == kLevels ? size_t{1} << level : runs_ + 1;
  }

  // Adds all other levels to the last run.
  __attribute__((always_inline)) void Finish(V (&run)[kCount]) const {
#pragma GCC unroll 1
    for (size_t bits = runs_; bits != 0; bits &= bits - 1) AddPending(LowestBit(bits), run);
  }

 private:
  static constexpr size_t kLevels = 8;

  __attribute__((always_inline)) static size_t LowestBit(size_t bits) {
    return static_cast<size_t>(__builtin_ctzll(bits));
  }

  __attribute__((always_inline)) void AddPending(size_t level, V (&run)[kCount]) const {
    for (size_t i = 0; i < kCount; ++i) run[i] += pending_[level][i];
  }

  V pending_[kLevels][kCount];
  size_t runs_ = 0;
};

// A tile reads a few columns of each row of a slice, and processors do not predict such steps. Each tile
// therefore prefetches the data of the tile to its right.
template <size_t kBytes>
__attribute__((always_inline)) inline void PrefetchRight(const unsigned char* slice) {
  constexpr size_t kLine = 64;
  for (size_t byte = kBytes; byte + kLine <= 2 * kBytes; byte += kLine) {
    PrefetchAt(slice, byte);
  }
}

template <class V, size_t kRows, size_t kVectors>
__attribute__((always_inline)) inline void AddTerm(const unsigned char* state, size_t row_step,
                                                   const unsigned char* slice, V (&sums)[kRows * kVectors]) {
  PrefetchRight<kVectors * sizeof(V)>(slice);
  V columns[kVectors];
  EDGE_EMBED_UNROLL
  for (size_t v = 0; v < kVectors; ++v) columns[v] = LoadVector<V>(slice + v * sizeof(V));
  EDGE_EMBED_UNROLL
  for (size_t p = 0; p < kRows; ++p) {
    const V factor = LoadVector<float>(state + p * row_step) - V{};
    EDGE_EMBED_UNROLL
    for (size_t v = 0; v < kVectors; ++v) sums[p * kVectors + v] += factor * columns[v];
  }
}

// Some rows and columns of the product, which stay in registers during a run.
template <size_t kWidth, size_t kRows, size_t kVectors>
__attribute__((noinline)) void MultiplyTile(const Product& product, size_t row, size_t column) {
  using V = typename Vector<kWidth>::Type;
  constexpr size_t kCount = kRows * kVectors;
  const size_t row_step = product.row_step, inner_step = product.inner_step;
  const size_t slice_step = product.columns * sizeof(float);
  const unsigned char* state = product.state + row * row_step;
  const unsigned char* slice = product.slice + column * sizeof(float);
  PairwiseSum<V, kCount> total;
  V sums[kCount];
#ifdef __wasm_simd128__
  V run[kCount];  // its address is taken, so that `sums` stay in registers where code is kept small
#else
  V(&run)[kCount] = sums;
#endif
  for (size_t left = product.inner; true;) {
    EDGE_EMBED_UNROLL
    for (size_t i = 0; i < kCount; ++i) sums[i] = V{};
    const size_t terms = left < product.run ? left : product.run;
#pragma GCC unroll 1
    for (size_t term = 0; term < terms; ++term) {
      AddTerm<V, kRows, kVectors>(state, row_step, slice, sums);
      state += inner_step;
      slice += slice_step;
    }
    EDGE_EMBED_UNROLL
    for (size_t i = 0; i < kCount; ++i) run[i] = sums[i];
    left -= terms;
    if (left == 0) break;
    total.Add(run);
  }
  total.Finish(run);
  unsigned char* out = product.out + (row * product.columns + column) * sizeof(float);
  EDGE_EMBED_UNROLL
  for (size_t p = 0; p < kRows; ++p) {
    EDGE_EMBED_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      StoreVector(run[p * kVectors + v], out + p * slice_step + v * sizeof(V));
    }
  }
}

// A tile has as many sums as there are registers, and all rows of a small state if possible, so that a slice
// is read once.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr size_t kWideVectors = 2, kWideRows = 8;
#elif defined(__wasm__)
constexpr size_t kWideVectors = 2, kWideRows = 4;  // compilers of engines need registers for factors
#else
constexpr size_t kWideVectors = 3, kWideRows = 4;
#endif

// All rows from `row` on. The rows after the last whole tile use a tile that begins earlier and computes some
// rows again, unless smaller tiles are as fast.
template <size_t kWidth, size_t kVectors, size_t kRows = kVectors == 1 ? 8 : kWideRows>
void MultiplyRows(const Product& product, size_t row, size_t column) {
  for (; row + kRows <= product.rows; row += kRows) {
    MultiplyTile<kWidth, kRows, kVectors>(product, row, column);
  }
  if constexpr (kRows > 1) {
    const size_t left = product.rows - row;
    if (left == 0) return;
    if (product.rows > kRows && left >= kRows / 2) {
      MultiplyTile<kWidth, kRows, kVectors>(product, product.rows - kRows, column);
    } else {
      MultiplyRows<kWidth, kVectors, kRows == 8 && kWidth == kLanes ? 4 : 1>(product, row, column);
    }
  }
}

// All columns from `column` on, in the same way: the widest vectors first, and never past the end of a slice.
template <size_t kWidth = kLanes>
__attribute__((noinline)) void Multiply(const Product& product, size_t column = 0) {
  const size_t columns = product.columns;
  if constexpr (kWidth == kLanes) {
    constexpr size_t kWide = kWideVectors * kWidth;
    if constexpr (kSideBySide > 1) {  // as many sums, of fewer rows
      constexpr size_t kRows = kWideRows / kSideBySide, kVectors = kWideVectors * kSideBySide;
      for (; product.rows <= kRows && columns - column >= kVectors * kWidth; column += kVectors * kWidth) {
        MultiplyRows<kWidth, kVectors, kRows>(product, 0, column);
      }
    }
    for (; columns - column >= kWide; column += kWide) {
      MultiplyRows<kWidth, kWideVectors>(product, 0, column);
    }
  }
  for (; columns - column >= kWidth; column += kWidth) MultiplyRows<kWidth, 1>(product, 0, column);
  if constexpr (kWidth > 1) {
    if (column == columns) return;
    if (columns > kWidth && columns - column > (kWidth == 4 ? 0 : kWidth / 2)) {
      MultiplyRows<kWidth, 1>(product, 0, columns - kWidth);
    } else {
      Multiply<kWidth == 4 ? 1 : kWidth / 2>(product, column);
    }
  }
}

// Multiply as a function that can be passed as an argument.
inline void MultiplyAll(const Product& product) { Multiply(product); }

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_FAST_PRODUCT_H_
