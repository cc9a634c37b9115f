// The functions of training.h as templates of vectors, which isa/ compiles for each instruction set.
#ifndef EDGE_EMBED_TRAINING_DPQ_H_
#define EDGE_EMBED_TRAINING_DPQ_H_

#include <type_traits>

#include "training/block.h"
#include "training/kernels.h"

namespace edge_embed {
namespace {

constexpr int kNoMemory = 1;

inline const float* WeightsOf(const ee_distances& distances, size_t group) {
  const size_t size = NumFeatures(distances) * distances.num_codes;
  return distances.weights + (distances.per_group != 0 ? group * size : 0);
}
inline size_t ValuesAt(const ee_distances& distances, const ee_values& values, size_t group) {
  return values.per_group != 0 ? group * distances.num_codes * values.width : 0;
}

// Features of one block of queries after another.
class Blocks {
 public:
  Blocks(const ee_distances& distances, size_t begin, size_t end, size_t of_group)
      : distances_(distances), begin_(begin), end_(end), num_features_(NumFeatures(distances)) {
    const size_t columns = distances.num_groups * num_features_;
    rows_ = BlockRows(columns, More(of_group, num_features_), end - begin);
  }

  size_t rows() const { return rows_; }  // the largest number of rows of a block
  // Number of floats of the features, and of their parts.
  size_t floats() const { return distances_.num_groups * (num_features_ + 1) * rows_; }
  static constexpr size_t kParts = 2;

  // Calls work(block) for each block.
  template <class Work>
  void Each(Scratch* scratch, const Work& work) const {
    float* features = scratch->Take(distances_.num_groups * num_features_ * rows_);
    float* inverses = scratch->Take(distances_.num_groups * rows_);
    for (size_t first = begin_; first < end_; first += rows_) {
      const size_t count = Less(rows_, end_ - first), rounded = RoundedUp(count);
      Features(distances_, first, count, rounded, features, inverses);
      work(Block{first, count, rounded, features, inverses, num_features_});
    }
  }

  struct Block {
    size_t first, count, rows;  // its first query, the number of queries, and that number rounded up
    float *features, *inverses;
    size_t num_features;

    float* FeaturesOf(size_t group) const { return features + group * num_features * rows; }
    const float* InverseOf(size_t group) const { return inverses + group * rows; }
  };

 private:
  const ee_distances& distances_;
  size_t begin_, end_, num_features_, rows_;
};
using Block = Blocks::Block;

// The largest distance so far, for kVectors vectors of queries, its code, and the second largest.
struct Largest {
  Floats first[kVectors], second[kVectors];
  Integers code[kVectors];

  Largest() {
    for (size_t v = 0; v < kVectors; ++v) {
      first[v] = second[v] = Broadcast(-INFINITY);
      code[v] = Integers{};
    }
  }
  template <bool kSecond>
  __attribute__((always_inline)) void Take(size_t k, const Floats (&sums)[kVectors]) {
    for (size_t v = 0; v < kVectors; ++v) {
      const Integers larger = sums[v] > first[v];
      if (kSecond) {
        const Floats loser = larger ? first[v] : sums[v];
        second[v] = loser > second[v] ? loser : second[v];
      }
      first[v] = larger ? sums[v] : first[v];
      code[v] = larger ? Integers{} + static_cast<int32_t>(k) : code[v];
    }
  }
};

// Codes of a block of features [f, rows], int32 [rows], and with kLeads their leads, float32 [rows].
template <bool kLeads>
inline void NearestOfBlock(const float* features, size_t rows, size_t n, const float* weights,
                           size_t num_codes, int32_t* codes, float* leads) {
  for (size_t row = 0; row < rows; row += kTogether) {
    Largest largest;
    size_t k = 0;
    for (; k + kColumns <= num_codes; k += kColumns) {
      Floats sums[kColumns][kVectors];
      Tile(features, rows, row, weights, num_codes, k, n, sums);
      for (size_t c = 0; c < kColumns; ++c) largest.Take<kLeads>(k + c, sums[c]);
    }
    for (; k < num_codes; ++k) {
      Floats sums[1][kVectors];
      Tile(features, rows, row, weights, num_codes, k, n, sums);
      largest.Take<kLeads>(k, sums[0]);
    }
    for (size_t v = 0; v < kVectors; ++v) {
      __builtin_memcpy(codes + row + v * kLanes, &largest.code[v], kVectorBytes);
      if (kLeads) StoreFloats(largest.first[v] - largest.second[v], leads + row + v * kLanes);
    }
  }
}

// Calls work(codes) with a pointer of the type of the codes.
template <class Work>
inline void WithCodes(const ee_codes& codes, const Work& work) {
  if (codes.bytes == 1) return work(static_cast<uint8_t*>(codes.data));
  work(static_cast<int32_t*>(codes.data));
}

int Nearest(const ee_distances* given, size_t begin, size_t end, const ee_codes* codes, float* leads) {
  const ee_distances& distances = *given;
  const Blocks blocks(distances, begin, end, 1);
  Scratch scratch;
  if (!scratch.Reserve(blocks.floats() + 2 * blocks.rows(), Blocks::kParts + 2)) return kNoMemory;
  float* lead = scratch.Take(blocks.rows());
  int32_t* code = reinterpret_cast<int32_t*>(scratch.Take(blocks.rows()));
  blocks.Each(&scratch, [&](const Block& block) {
    for (size_t group = 0; group < distances.num_groups; ++group) {
      const size_t at = group * distances.num_queries + block.first;
      const auto find = leads != nullptr ? NearestOfBlock<true> : NearestOfBlock<false>;
      find(block.FeaturesOf(group), block.rows, block.num_features, WeightsOf(distances, group),
           distances.num_codes, code, lead);
      WithCodes(*codes, [&](auto* to) {
        for (size_t row = 0; row < block.count; ++row) {
          to[at + row] = static_cast<std::remove_reference_t<decltype(*to)>>(code[row]);
        }
      });
      if (leads != nullptr) __builtin_memcpy(leads + at, lead, block.count * sizeof(float));
    }
  });
  return 0;
}

// Calls work(width) with the width of sub-vectors. Small widths are constants, so that their loops are
// unrolled.
template <class Work>
inline void WithWidth(size_t width, const Work& work) {
  if (width == 1) return work(std::integral_constant<size_t, 1>());
  if (width == 2) return work(std::integral_constant<size_t, 2>());
  if (width == 4) return work(std::integral_constant<size_t, 4>());
  if (width == 8) return work(std::integral_constant<size_t, 8>());
  work(width);
}

// Calls work(width, row, number, chosen) for each sub-vector of the queries begin .. end - 1, row by row.
// `number` is the index of its first number, and `chosen` that of its value.
template <class Work>
inline void EachChosen(const ee_distances& distances, const ee_values& values, const ee_codes& codes,
                       size_t begin, size_t end, const Work& work) {
  const size_t apart = ValuesAt(distances, values, 1);
  WithCodes(codes, [&](const auto* of_rows) {
    WithWidth(values.width, [&](const auto width) {
      size_t number = begin * distances.num_groups * width;
      for (size_t row = begin; row < end; ++row) {
        const auto* code = of_rows + row;
        for (size_t group = 0; group < distances.num_groups; ++group) {
          work(width, row, number, group * apart + static_cast<size_t>(*code) * width);
          number += width;
          code += distances.num_queries;
        }
      }
    });
  });
}

int Rows(const ee_distances* given, const ee_values* values, const ee_codes* codes, size_t begin, size_t end,
         float* rows) {
  EachChosen(*given, *values, *codes, begin, end,
             [&](const auto width, size_t, const size_t number, const size_t chosen) {
               __builtin_memcpy(rows + number, values->data + chosen, width * sizeof(float));
             });
  return 0;
}

// 2^(rate x) for x up to 0, within 2 ULP except for the rounding of rate x. It is at least 2^-100, because
// products of subnormal numbers take a hundred times as long.
//
// It is 2^n 2^y with |y| at most 1/2. 2^y is the polynomial of degree 5 with the least relative error, 1.6 *
// 2^-24.
inline Floats PowerOfTwo(Floats x, float rate) {
  constexpr float kShift =
      12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, and its last bits are n
  const Floats least = Broadcast(-100 / rate);
  x = least > x ? least : x;
  const Floats shifted = x * rate + kShift, y = x * rate - (shifted - kShift);
  Floats sum = y * 0.001326472731F + 0.009671512991F;
  sum = sum * y + 0.05550733581F;
  sum = sum * y + 0.2402224243F;
  sum = sum * y + 0.6931470037F;
  sum = sum * y + 1.0F;
  return (Floats)((Words)sum + ((Words)shifted << 23));
}

// Replaces distances [K, rows] by their gradient, from `of_choice` [K, rows].
inline void SoftmaxBackward(float* distances, const float* of_choice, size_t num_codes, size_t rows,
                            float temperature) {
  const float rate =
      static_cast<float>(1.4426950408889634 / static_cast<double>(temperature));  // log2(e) / t
  for (size_t row = 0; row < rows; row += kTogether) {
    Floats largest[kVectors], total[kVectors] = {}, learned[kVectors] = {};
    for (size_t v = 0; v < kVectors; ++v) largest[v] = LoadFloats(distances + row + v * kLanes);
    for (size_t k = 1; k < num_codes; ++k) {
      for (size_t v = 0; v < kVectors; ++v) {
        const Floats distance = LoadFloats(distances + k * rows + row + v * kLanes);
        largest[v] = distance > largest[v] ? distance : largest[v];
      }
    }
    for (size_t k = 0; k < num_codes; ++k) {
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t at = k * rows + row + v * kLanes;
        const Floats part = PowerOfTwo(LoadFloats(distances + at) - largest[v], rate);
        total[v] += part;
        learned[v] += part * LoadFloats(of_choice + at);
        StoreFloats(part, distances + at);
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      total[v] = 1 / (total[v] * temperature);           // the weight of a part
      learned[v] = learned[v] * total[v] * temperature;  // the mean of of_choice
    }
    for (size_t k = 0; k < num_codes; ++k) {
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t at = k * rows + row + v * kLanes;
        const Floats part = LoadFloats(distances + at) * total[v];
        StoreFloats(part * (LoadFloats(of_choice + at) - learned[v]), distances + at);
      }
    }
  }
}

// Adds rows [B, D s] to the gradients of their chosen values.
inline void AddToChosen(const ee_distances& distances, const ee_values& values, const ee_codes& codes,
                        const float* rows, size_t begin, size_t end, double* values_gradient) {
  EachChosen(distances, values, codes, begin, end,
             [&](const auto width, size_t, const size_t number, const size_t chosen) {
               for (size_t i = 0; i < width; ++i) {
                 values_gradient[chosen + i] += static_cast<double>(rows[number + i]);
               }
             });
}

int SoftBackward(const ee_distances* given, const ee_values* values, const ee_codes* codes, float temperature,
                 const float* gradient, size_t begin, size_t end, float* query_gradient,
                 double* weights_gradient, double* values_gradient) {
  const ee_distances& distances = *given;
  const size_t n = NumFeatures(distances), num_codes = distances.num_codes, num_groups = distances.num_groups;
  const size_t width = values->width, stride = num_groups * width;
  const Blocks blocks(distances, begin, end, More(2 * num_codes, width));
  const size_t most = blocks.rows();
  Scratch scratch;
  if (!scratch.Reserve(
          blocks.floats() + (num_groups * (n + width) + 2 * num_codes) * most + (n + width) * num_codes,
          Blocks::kParts + 6)) {
    return kNoMemory;
  }
  float* learned_of_features = scratch.Take(num_groups * n * most);
  float* gradient_of_rows = scratch.Take(stride * most);
  float* learned = scratch.Take(num_codes * most);
  float* of_choice = scratch.Take(num_codes * most);
  float* weights_turned = scratch.Take(n * num_codes);
  float* values_turned = scratch.Take(width * num_codes);
  blocks.Each(&scratch, [&](const Block& block) {
    const size_t rows = block.rows;
    const float* of_block = gradient + block.first * stride;
    Turn(of_block, block.count, num_groups, width, rows, width, gradient_of_rows);
    for (size_t group = 0; group < num_groups; ++group) {
      const size_t values_at = ValuesAt(distances, *values, group);
      const float* weights = WeightsOf(distances, group);
      const float* features = block.FeaturesOf(group);
      float* of_features = learned_of_features + group * n * rows;
      Transpose(values->data + values_at, num_codes, width, values_turned);
      Transpose(weights, n, num_codes, weights_turned);
      Multiply(features, rows, weights, num_codes, n, learned);
      Multiply(gradient_of_rows + group * width * rows, rows, values_turned, num_codes, width, of_choice);
      SoftmaxBackward(learned, of_choice, num_codes, rows, temperature);
      MultiplyTo(n - 1, learned, rows, weights_turned, n, num_codes, of_features);  // without the feature 1
      AddProducts(features, n, learned, num_codes, rows,
                  weights_gradient + (distances.per_group != 0 ? group * n * num_codes : 0));
      FeaturesBackward(distances, rows, features, block.InverseOf(group), of_features);
    }
    TurnBack(learned_of_features, block.count, num_groups, distances.width, rows, n,
             query_gradient + block.first * num_groups * distances.width);
  });
  AddToChosen(distances, *values, *codes, gradient, begin, end, values_gradient);
  return 0;
}

int CentroidBackward(const ee_distances* given, const ee_values* values, const ee_codes* codes,
                     const float* shares, size_t begin, size_t end, double* values_gradient) {
  EachChosen(*given, *values, *codes, begin, end,
             [&](const auto width, const size_t row, const size_t number, const size_t chosen) {
               const float *value = values->data + chosen, *query = given->query + number;
               for (size_t i = 0; i < width; ++i) {
                 values_gradient[chosen + i] += static_cast<double>(2 * shares[row] * (value[i] - query[i]));
               }
             });
  return 0;
}

// Subtracts an origin [n] from features [n, rows].
inline void Subtract(const float* features, size_t n, size_t rows, const float* origin, float* moved) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t row = 0; row < rows; ++row) moved[i * rows + row] = features[i * rows + row] - origin[i];
  }
}

int Products(const ee_distances* given, const float* shares, const float* origin, size_t begin, size_t end,
             double* products) {
  const ee_distances& distances = *given;
  const size_t n = NumFeatures(distances);
  const Blocks blocks(distances, begin, end, 2 * n);
  Scratch scratch;
  if (!scratch.Reserve(blocks.floats() + (2 * n + 1) * blocks.rows(), Blocks::kParts + 3)) return kNoMemory;
  float* moved = scratch.Take(n * blocks.rows());
  float* shared = scratch.Take(n * blocks.rows());
  float* share = scratch.Take(blocks.rows());
  blocks.Each(&scratch, [&](const Block& block) {
    const size_t rows = block.rows;
    Turn(shares + block.first, block.count, 1, 1, rows, 1, share);
    for (size_t group = 0; group < distances.num_groups; ++group) {
      Subtract(block.FeaturesOf(group), n, rows, origin + group * n, moved);
      for (size_t i = 0; i < n; ++i) {
        for (size_t row = 0; row < rows; ++row) shared[i * rows + row] = moved[i * rows + row] * share[row];
      }
      AddProducts(moved, n, shared, n, rows, products + group * n * n);
    }
  });
  return 0;
}

int ProductsBackward(const ee_distances* given, const float* shares, const float* origin,
                     const float* sums_gradient, const float* products_gradient, size_t begin, size_t end,
                     float* query_gradient) {
  const ee_distances& distances = *given;
  const size_t n = NumFeatures(distances), num_groups = distances.num_groups;
  const Blocks blocks(distances, begin, end, 2 * n);
  const size_t most = blocks.rows();
  Scratch scratch;
  if (!scratch.Reserve(blocks.floats() + (num_groups * n + n + 1) * most, Blocks::kParts + 3))
    return kNoMemory;
  float* learned_of_features = scratch.Take(num_groups * n * most);
  float* moved = scratch.Take(n * most);
  float* share = scratch.Take(most);
  blocks.Each(&scratch, [&](const Block& block) {
    const size_t rows = block.rows;
    Turn(shares + block.first, block.count, 1, 1, rows, 1, share);
    for (size_t group = 0; group < num_groups; ++group) {
      float* learned = learned_of_features + group * n * rows;
      Subtract(block.FeaturesOf(group), n, rows, origin + group * n, moved);
      // The gradient of a product of x with itself is symmetric, so its columns can be used as rows.
      Multiply(moved, rows, products_gradient + group * n * n, n, n, learned);
      for (size_t i = 0; i < n; ++i) {
        const float of_sum = sums_gradient[group * n + i];
        for (size_t row = 0; row < rows; ++row) {
          learned[i * rows + row] = share[row] * (learned[i * rows + row] + of_sum);
        }
      }
      FeaturesBackward(distances, rows, block.FeaturesOf(group), block.InverseOf(group), learned);
    }
    TurnBack(learned_of_features, block.count, num_groups, distances.width, rows, n,
             query_gradient + block.first * num_groups * distances.width);
  });
  return 0;
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_TRAINING_DPQ_H_
