// A block of queries of one group as columns: what goes over queries goes over whole vectors then.
//
// Everything here is in an unnamed namespace: it is compiled once for each instruction set.
#ifndef EDGE_EMBED_TRAINING_BLOCK_H_
#define EDGE_EMBED_TRAINING_BLOCK_H_

#include <math.h>
#include <stdlib.h>

#include "kernels/simd.h"
#include "training/training.h"

namespace edge_embed {
namespace {

// Vectors of queries, and columns of a matrix, whose products are summed side by side in registers.
#if defined(__AVX512F__)
constexpr size_t kVectors = 4;
#else
constexpr size_t kVectors = 2;
#endif
constexpr size_t kColumns = 4;
constexpr size_t kTogether = kVectors * kLanes;

// Floats of a block: of its queries, which lie in a second-level cache, and of what one group makes of them,
// in a first-level cache.
constexpr size_t kBlockFloats = 1 << 16, kGroupFloats = 1 << 14;
constexpr size_t kLeastRows = 256;      // fewer are not worth a sum over vectors
constexpr float kLeastLength = 1e-12F;  // a vector shorter than this has no direction

inline size_t Less(size_t a, size_t b) { return a < b ? a : b; }
inline size_t More(size_t a, size_t b) { return a > b ? a : b; }
inline size_t RoundedUp(size_t count) { return (count + kTogether - 1) / kTogether * kTogether; }

// Queries of a block that are `columns` floats each, and `of_group` while a group is worked on.
inline size_t BlockRows(size_t columns, size_t of_group, size_t most) {
  const size_t rows = Less(kBlockFloats / columns, kGroupFloats / of_group) / kTogether * kTogether;
  return Less(More(rows, kLeastRows), RoundedUp(most));
}

// Memory for floats, one part after the other, each at a vector's alignment.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { free(memory_); }

  // Parts of so many floats at most; false: there is no memory.
  bool Reserve(size_t floats, size_t parts) {
    memory_ = static_cast<unsigned char*>(malloc(sizeof(float) * floats + (parts + 1) * kVectorBytes));
    next_ = memory_;
    return memory_ != nullptr;
  }
  float* Take(size_t floats) {
    next_ += (kVectorBytes - reinterpret_cast<uintptr_t>(next_) % kVectorBytes) % kVectorBytes;
    float* part = reinterpret_cast<float*>(next_);
    next_ += sizeof(float) * floats;
    return part;
  }

 private:
  unsigned char* memory_ = nullptr;
  unsigned char* next_ = nullptr;
};

// Turns a matrix [count, groups * width] into columns, [rows] each, the rows that are too many zero; those of
// a group begin `apart` columns after those of the one before. By small squares, whose lines stay in the
// cache.
inline void Turn(const float* from, size_t count, size_t groups, size_t width, size_t rows, size_t apart,
                 float* to) {
  constexpr size_t kSquare = 16;
  const size_t stride = groups * width;
  for (size_t first = 0; first < rows; first += kSquare) {
    const size_t there = first < count ? Less(kSquare, count - first) : 0;
    const size_t all = Less(kSquare, rows - first);  // narrow vectors: not a whole square at the end
    float* column = to + first;
    for (size_t group = 0; group < groups; ++group, column += (apart - width) * rows) {
      for (size_t i = 0; i < width; ++i, column += rows) {
        const float* number = from + first * stride + group * width + i;
        for (size_t row = 0; row < there; ++row) column[row] = number[row * stride];
        for (size_t row = there; row < all; ++row) column[row] = 0;
      }
    }
  }
}

// The other way round.
inline void TurnBack(const float* from, size_t count, size_t groups, size_t width, size_t rows, size_t apart,
                     float* to) {
  constexpr size_t kSquare = 16;
  const size_t stride = groups * width;
  for (size_t first = 0; first < count; first += kSquare) {
    const size_t there = Less(kSquare, count - first);
    const float* column = from + first;
    for (size_t group = 0; group < groups; ++group, column += (apart - width) * rows) {
      for (size_t i = 0; i < width; ++i, column += rows) {
        float* number = to + first * stride + group * width + i;
        for (size_t row = 0; row < there; ++row) number[row * stride] = column[row];
      }
    }
  }
}

inline size_t NumFeatures(const ee_distances& distances) {
  return distances.width + (distances.metric == EE_EUCLIDEAN ? 2 : 1);
}

// Features [D, f, rows] of the queries begin .. begin + count - 1, and for cosine 1 / |q| [D, rows], 0 where
// it has no direction. What rows are too many have a feature 1 all the same, the rest 0.
inline void Features(const ee_distances& distances, size_t begin, size_t count, size_t rows, float* features,
                     float* inverses) {
  const size_t width = distances.width, groups = distances.num_groups, n = NumFeatures(distances);
  Turn(distances.query + begin * groups * width, count, groups, width, rows, n, features);
  for (size_t group = 0; group < groups; ++group, features += n * rows, inverses += rows) {
    float* ones = features + (n - 1) * rows;
    for (size_t row = 0; row < rows; ++row) ones[row] = 1;
    if (distances.metric == EE_DOT) continue;
    float* squares = distances.metric == EE_EUCLIDEAN ? features + width * rows : inverses;
    for (size_t row = 0; row < rows; ++row) squares[row] = 0;
    for (size_t i = 0; i < width; ++i) {
      const float* column = features + i * rows;
      for (size_t row = 0; row < rows; ++row) squares[row] += column[row] * column[row];
    }
    if (distances.metric == EE_EUCLIDEAN) continue;
    for (size_t row = 0; row < rows; ++row) {
      const float square = inverses[row];
      inverses[row] = square > kLeastLength * kLeastLength ? 1 / sqrtf(square) : 0;
    }
    for (size_t i = 0; i < width; ++i) {
      float* column = features + i * rows;
      for (size_t row = 0; row < rows; ++row) column[row] *= inverses[row];
    }
  }
}

// Turns what the features [f, rows] of a group learn into what its queries do, in the first w of `gradient`
// [f, rows].
inline void FeaturesBackward(const ee_distances& distances, size_t rows, const float* features,
                             const float* inverse, float* gradient) {
  const size_t width = distances.width;
  if (distances.metric == EE_EUCLIDEAN) {  // of |q|^2
    const float* of_square = gradient + width * rows;
    for (size_t i = 0; i < width; ++i) {
      for (size_t row = 0; row < rows; ++row) {
        gradient[i * rows + row] += 2 * features[i * rows + row] * of_square[row];
      }
    }
  }
  if (distances.metric == EE_COSINE) {       // of q / |q|: what lies along q changes nothing
    float* along = gradient + width * rows;  // the feature 1 teaches nothing
    for (size_t row = 0; row < rows; ++row) along[row] = 0;
    for (size_t i = 0; i < width; ++i) {
      for (size_t row = 0; row < rows; ++row)
        along[row] += gradient[i * rows + row] * features[i * rows + row];
    }
    for (size_t i = 0; i < width; ++i) {
      for (size_t row = 0; row < rows; ++row) {
        float& of_column = gradient[i * rows + row];
        of_column = inverse[row] * (of_column - features[i * rows + row] * along[row]);
      }
    }
  }
}

// Products of kVectors vectors of rows with kCount columns: left [n, rows] from row `row` on, right [n,
// columns] from column `column` on. Each sum goes from the first of n to the last.
template <size_t kCount>
__attribute__((always_inline)) inline void Tile(const float* left, size_t rows, size_t row,
                                                const float* right, size_t columns, size_t column, size_t n,
                                                Floats (&sums)[kCount][kVectors]) {
  for (size_t c = 0; c < kCount; ++c) {
    for (size_t v = 0; v < kVectors; ++v) sums[c][v] = Floats{};
  }
  for (size_t i = 0; i < n; ++i) {
    const float* of_left = left + i * rows + row;
    const float* of_right = right + i * columns + column;
    Floats vectors[kVectors];
    for (size_t v = 0; v < kVectors; ++v) vectors[v] = LoadFloats(of_left + v * kLanes);
    for (size_t c = 0; c < kCount; ++c) {
      const Floats factor = Broadcast(of_right[c]);
      for (size_t v = 0; v < kVectors; ++v) sums[c][v] += vectors[v] * factor;
    }
  }
}

// left [n, rows] and the first `count` columns of right [n, columns] -> product [count, rows].
inline void MultiplyTo(size_t count, const float* left, size_t rows, const float* right, size_t columns,
                       size_t n, float* product) {
  for (size_t row = 0; row < rows; row += kTogether) {
    const auto store = [&](size_t column, const Floats(&sums)[kVectors]) {
      for (size_t v = 0; v < kVectors; ++v) StoreFloats(sums[v], product + column * rows + row + v * kLanes);
    };
    size_t column = 0;
    for (; column + kColumns <= count; column += kColumns) {
      Floats sums[kColumns][kVectors];
      Tile(left, rows, row, right, columns, column, n, sums);
      for (size_t c = 0; c < kColumns; ++c) store(column + c, sums[c]);
    }
    for (; column < count; ++column) {
      Floats sums[1][kVectors];
      Tile(left, rows, row, right, columns, column, n, sums);
      store(column, sums[0]);
    }
  }
}

// The same with all columns.
inline void Multiply(const float* left, size_t rows, const float* right, size_t columns, size_t n,
                     float* product) {
  MultiplyTo(columns, left, rows, right, columns, n, product);
}

inline double Sum(Floats vector) {
  float numbers[kLanes];
  __builtin_memcpy(numbers, &vector, sizeof(numbers));
  double sums[4] = {};  // side by side: one would wait for the one before
  for (size_t lane = 0; lane < kLanes; lane += 4) {
    for (size_t i = 0; i < 4; ++i) sums[i] += static_cast<double>(numbers[lane + i]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Adds sum_row left[i, row] right[k, row] to sums [m, n], for kCount of the i from `first` on: left [m,
// rows], right [n, rows].
template <size_t kCount>
inline void AddProductsOf(const float* left, size_t first, const float* right, size_t n, size_t rows,
                          double* sums) {
  for (size_t k = 0; k < n; k += kColumns) {
    const size_t count = Less(kColumns, n - k);
    Floats together[kCount][kColumns] = {};
    for (size_t row = 0; row < rows; row += kLanes) {
      Floats of_right[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {  // beyond the last one the last is summed again, for nothing
        of_right[c] = LoadFloats(right + (k + Less(c, count - 1)) * rows + row);
      }
      for (size_t i = 0; i < kCount; ++i) {
        const Floats of_left = LoadFloats(left + (first + i) * rows + row);
        for (size_t c = 0; c < kColumns; ++c) together[i][c] += of_left * of_right[c];
      }
    }
    for (size_t i = 0; i < kCount; ++i) {
      for (size_t c = 0; c < count; ++c) sums[(first + i) * n + k + c] += Sum(together[i][c]);
    }
  }
}

// The same for all of m.
inline void AddProducts(const float* left, size_t m, const float* right, size_t n, size_t rows,
                        double* sums) {
  size_t i = 0;
  for (; i + kVectors <= m; i += kVectors) AddProductsOf<kVectors>(left, i, right, n, rows, sums);
  for (; i < m; ++i) AddProductsOf<1>(left, i, right, n, rows, sums);
}

// [m, n] -> [n, m].
inline void Transpose(const float* from, size_t m, size_t n, float* to) {
  for (size_t i = 0; i < m; ++i) {
    for (size_t k = 0; k < n; ++k) to[k * m + i] = from[i * n + k];
  }
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_TRAINING_BLOCK_H_
