// A block of queries of one group, stored as columns, so that loops over queries use whole vectors.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_TRAINING_BLOCK_H_
#define EDGE_EMBED_TRAINING_BLOCK_H_

#include <math.h>
#include <stdlib.h>

#include <type_traits>
#include <utility>

#include "kernels/simd.h"
#include "training/training.h"

namespace edge_embed {
namespace {

// Vectors of queries, and columns of a matrix, whose products are summed together in registers.
#if defined(__AVX512F__)
constexpr size_t kVectors = 4;
#else
constexpr size_t kVectors = 2;
#endif
constexpr size_t kColumns = 4;
constexpr size_t kTogether = kVectors * kLanes;

// Floats of a block: those of its queries fit a second-level cache, and those of one group fit a first-level
// cache.
constexpr size_t kBlockFloats = 1 << 15, kGroupFloats = 1 << 13;
constexpr size_t kLeastRows = 128;      // fewer do not pay for a sum over vectors
constexpr float kLeastLength = 1e-12F;  // a vector shorter than this has no direction

inline size_t Less(size_t a, size_t b) { return a < b ? a : b; }
inline size_t More(size_t a, size_t b) { return a > b ? a : b; }
inline size_t RoundedUp(size_t count) { return (count + kTogether - 1) / kTogether * kTogether; }

// Number of queries of a block. A query has `columns` floats, and `of_group` floats while a group is
// processed.
inline size_t BlockRows(size_t columns, size_t of_group, size_t most) {
  const size_t rows = Less(kBlockFloats / columns, kGroupFloats / of_group) / kTogether * kTogether;
  return Less(More(rows, kLeastRows), RoundedUp(most));
}

// Memory for floats: parts one after another, each aligned for a vector.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { free(memory_); }

  // Allocates at most this number of floats in parts; false if the allocation fails.
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

// The first `count` numbers of a vector; the others are 0.
inline Floats LoadSome(const float* from, size_t count) {
  if (count == kLanes) return LoadFloats(from);
  Floats vector{};
  __builtin_memcpy(&vector, from, count * sizeof(float));
  return vector;
}
inline void StoreSome(Floats vector, size_t count, float* to) {
  if (count == kLanes) return StoreFloats(vector, to);
  __builtin_memcpy(to, &vector, count * sizeof(float));
}

// Interleaves the numbers of two vectors: those of their lower halves, and those of their upper halves.
template <size_t... kLane>
__attribute__((always_inline)) inline void InTurn(Floats a, Floats b, Floats* lower, Floats* upper,
                                                  std::index_sequence<kLane...> /* lanes */) {
  *lower = __builtin_shufflevector(a, b, (kLane / 2 + kLane % 2 * kLanes)...);
  *upper = __builtin_shufflevector(a, b, ((kLanes + kLane) / 2 + kLane % 2 * kLanes)...);
}

// Transposes a square. Each round rotates the bits of a number's index (row bits, then column bits) by one.
__attribute__((always_inline)) inline void TurnSquare(Floats (&square)[kLanes]) {
  for (size_t round = 1; round < kLanes; round *= 2) {
    Floats turned[kLanes];
    for (size_t i = 0; i < kLanes / 2; ++i) {
      InTurn(square[i], square[i + kLanes / 2], &turned[2 * i], &turned[2 * i + 1],
             std::make_index_sequence<kLanes>());
    }
    for (size_t i = 0; i < kLanes; ++i) square[i] = turned[i];
  }
}

// Places of the columns of a matrix [*, groups * width] that are stored as [rows] each, from column `first`
// on. Consecutive groups begin `apart` columns apart.
class Columns {
 public:
  Columns(size_t first, size_t width, size_t rows, size_t apart)
      : width_(width),
        rows_(rows),
        gap_((apart - width) * rows),
        left_(width - first % width),
        place_((first / width * apart + first % width) * rows) {}

  size_t Next() {
    if (left_ == 0) {
      left_ = width_;
      place_ += gap_;
    }
    --left_;
    const size_t place = place_;
    place_ += rows_;
    return place;
  }

 private:
  size_t width_, rows_, gap_, left_, place_;
};

// Transposes a matrix [count, groups * width] into columns, [rows] each. Rows beyond `count` are zero.
inline void Turn(const float* from, size_t count, size_t groups, size_t width, size_t rows, size_t apart,
                 float* to) {
  const size_t stride = groups * width;
  for (size_t first = 0; first < rows; first += kLanes) {
    for (size_t begin = 0; begin < stride; begin += kLanes) {
      const size_t across = Less(kLanes, stride - begin);
      Floats square[kLanes];
      for (size_t i = 0; i < kLanes; ++i) {
        const size_t row = first + i;
        square[i] = row < count ? LoadSome(from + row * stride + begin, across) : Floats{};
      }
      TurnSquare(square);
      Columns columns(begin, width, rows, apart);
      for (size_t i = 0; i < across; ++i) StoreFloats(square[i], to + columns.Next() + first);
    }
  }
}

// The inverse.
inline void TurnBack(const float* from, size_t count, size_t groups, size_t width, size_t rows, size_t apart,
                     float* to) {
  const size_t stride = groups * width;
  for (size_t first = 0; first < count; first += kLanes) {
    for (size_t begin = 0; begin < stride; begin += kLanes) {
      const size_t across = Less(kLanes, stride - begin);
      Columns columns(begin, width, rows, apart);
      Floats square[kLanes] = {};
      for (size_t i = 0; i < across; ++i) square[i] = LoadFloats(from + columns.Next() + first);
      TurnSquare(square);
      for (size_t i = 0; i < Less(kLanes, count - first); ++i) {
        StoreSome(square[i], across, to + (first + i) * stride + begin);
      }
    }
  }
}

inline size_t NumFeatures(const ee_distances& distances) {
  return distances.width + (distances.metric == EE_EUCLIDEAN ? 2 : 1);
}

// Features [D, f, rows] of the queries begin .. begin + count - 1, and for cosine 1 / |q| [D, rows], 0 for a
// query without direction. Rows beyond `count` have the feature 1; their other features are 0.
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

// Converts the gradient with respect to the features [f, rows] of a group to that of its queries, in the
// first w rows of `gradient` [f, rows].
inline void FeaturesBackward(const ee_distances& distances, size_t rows, const float* features,
                             const float* inverse, float* gradient) {
  const size_t width = distances.width;
  const auto at = [&](size_t i, size_t row) { return i * rows + row; };
  if (distances.metric == EE_EUCLIDEAN) {  // gradient of |q|^2
    for (size_t row = 0; row < rows; row += kLanes) {
      const Floats twice = 2 * LoadFloats(gradient + at(width, row));
      for (size_t i = 0; i < width; ++i) {
        float* of_column = gradient + at(i, row);
        StoreFloats(LoadFloats(of_column) + twice * LoadFloats(features + at(i, row)), of_column);
      }
    }
  }
  if (distances.metric == EE_COSINE) {  // gradient of q / |q|: a change along q has no effect
    for (size_t row = 0; row < rows; row += kLanes) {
      Floats along{};
      for (size_t i = 0; i < width; ++i) {
        along += LoadFloats(gradient + at(i, row)) * LoadFloats(features + at(i, row));
      }
      const Floats inverses = LoadFloats(inverse + row);
      for (size_t i = 0; i < width; ++i) {
        float* of_column = gradient + at(i, row);
        const Floats across = LoadFloats(of_column) - along * LoadFloats(features + at(i, row));
        StoreFloats(inverses * across, of_column);
      }
    }
  }
}

// Products of kVectors vectors of rows with kCount columns: left [n, rows] from row `row` on, right [n,
// columns] from column `column` on. Each sum is in the order of n.
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

// Calls work(number) with a constant: the number of columns, of at most `count`, that are processed together.
template <size_t kMost = kColumns, class Work>
__attribute__((always_inline)) inline void Together(size_t count, const Work& work) {
  if constexpr (kMost > 1) {
    if (count < kMost) return Together<kMost - 1>(count, work);
  }
  work(std::integral_constant<size_t, kMost>());
}

// left [n, rows] and the first `count` columns of right [n, columns] -> product [count, rows].
inline void MultiplyTo(size_t count, const float* left, size_t rows, const float* right, size_t columns,
                       size_t n, float* product) {
  for (size_t row = 0; row < rows; row += kTogether) {
    for (size_t column = 0; column < count; column += kColumns) {
      Together(count - column, [&](auto number) {
        Floats sums[number][kVectors];
        Tile(left, rows, row, right, columns, column, n, sums);
        for (size_t c = 0; c < number; ++c) {
          float* to = product + (column + c) * rows + row;
          for (size_t v = 0; v < kVectors; ++v) StoreFloats(sums[c][v], to + v * kLanes);
        }
      });
    }
  }
}

// The same with all columns.
inline void Multiply(const float* left, size_t rows, const float* right, size_t columns, size_t n,
                     float* product) {
  MultiplyTo(columns, left, rows, right, columns, n, product);
}

// Sums of pairs: those of a are in the even lanes, and those of b in the odd lanes.
__attribute__((always_inline)) inline Floats Halved(Floats a, Floats b) {
  Floats lower, upper;
  InTurn(a, b, &lower, &upper, std::make_index_sequence<kLanes>());
  return lower + upper;
}

// Adds the sum of each of kColumns vectors to the first `count` of sums.
__attribute__((always_inline)) inline void AddSums(const Floats (&vectors)[kColumns], size_t count,
                                                   double* sums) {
  typedef float Four __attribute__((vector_size(kColumns * sizeof(float))));
  const Floats halved = Halved(Halved(vectors[0], vectors[2]), Halved(vectors[1], vectors[3]));
  Four parts[kLanes / kColumns];
  __builtin_memcpy(parts, &halved, sizeof(parts));
  Four total{};
  for (const Four part : parts) total += part;
  for (size_t c = 0; c < count; ++c) sums[c] += static_cast<double>(total[c]);
}

// Adds sum_row left[i, row] right[k, row] to sums [m, n], for kCount of the i from `first` on: left [m,
// rows], right [n, rows].
template <size_t kCount>
inline void AddProductsOf(const float* left, size_t first, const float* right, size_t n, size_t rows,
                          double* sums) {
  for (size_t k = 0; k < n; k += kColumns) {
    const size_t count = Less(kColumns, n - k);
    Floats together[kCount][kColumns];
    for (auto& of_left : together) {
      for (Floats& products : of_left) products = Floats{};
    }
    for (size_t row = 0; row < rows; row += kLanes) {
      Floats of_right[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {  // after the last one, the last is summed again and discarded
        of_right[c] = LoadFloats(right + (k + Less(c, count - 1)) * rows + row);
      }
      for (size_t i = 0; i < kCount; ++i) {
        const Floats of_left = LoadFloats(left + (first + i) * rows + row);
        for (size_t c = 0; c < kColumns; ++c) together[i][c] += of_left * of_right[c];
      }
    }
    for (size_t i = 0; i < kCount; ++i) AddSums(together[i], count, sums + (first + i) * n + k);
  }
}

// The same for all of m.
inline void AddProducts(const float* left, size_t m, const float* right, size_t n, size_t rows,
                        double* sums) {
  for (size_t i = 0; i < m; i += kVectors) {
    Together<kVectors>(m - i, [&](auto number) { AddProductsOf<number>(left, i, right, n, rows, sums); });
  }
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
