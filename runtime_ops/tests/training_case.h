// Arguments of the functions of training.h, and their formulas for one sub-vector of a query.
//
// Arrays end at a page without access. Their alignment is mostly that of four bytes only.
#ifndef EDGE_EMBED_TESTS_TRAINING_CASE_H_
#define EDGE_EMBED_TESTS_TRAINING_CASE_H_

#include <random>

#include "tests/bounded.h"
#include "tests/guarded_buffer.h"
#include "training/training.h"

namespace edge_embed::testing {

template <class T>
class Numbers {
 public:
  explicit Numbers(size_t count, T fill = 0) : buffer_(count * sizeof(T)), count_(count) {
    for (size_t i = 0; i < count; ++i) data()[i] = fill;
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return count_; }

 private:
  GuardedBuffer buffer_;
  size_t count_;
};

struct Shape {
  size_t queries, groups, width, codes, value_width;
  ee_metric metric;
  bool own_weights = true, own_values = true;  // a matrix for each group

  size_t features() const { return width + (metric == EE_EUCLIDEAN ? 2 : 1); }
  size_t matrices() const { return own_weights ? groups : 1; }
  size_t codebooks() const { return own_values ? groups : 1; }
};

constexpr float kTemperature = 0.7F;

// Arguments of all functions: normal numbers, and any codes.
struct Case {
  explicit Case(const Shape& wanted)
      : shape(wanted),
        query(wanted.queries * wanted.groups * wanted.width),
        weights(wanted.matrices() * wanted.features() * wanted.codes),
        values(wanted.codebooks() * wanted.codes * wanted.value_width),
        centroids(wanted.codebooks() * wanted.codes * wanted.width),
        gradient(wanted.queries * wanted.groups * wanted.value_width),
        shares(wanted.queries),
        origin(wanted.groups * wanted.features()),
        sums_gradient(wanted.groups * wanted.features()),
        products_gradient(wanted.groups * wanted.features() * wanted.features()),
        codes(wanted.queries * wanted.groups),
        byte_codes(wanted.codes <= 256 ? codes.size() : 0) {
    std::mt19937 random(static_cast<unsigned>(wanted.queries * 31 + wanted.codes));
    std::normal_distribution<float> draw;
    for (const Numbers<float>* numbers : {&query, &weights, &values, &centroids, &gradient, &shares, &origin,
                                          &sums_gradient, &products_gradient}) {
      for (size_t i = 0; i < numbers->size(); ++i) (*numbers)[i] = draw(random);
    }
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int32_t>(random() % wanted.codes);
    for (size_t i = 0; i < byte_codes.size(); ++i) byte_codes[i] = static_cast<uint8_t>(codes[i]);
    const size_t n = wanted.features();
    for (size_t i = 0; i < products_gradient.size(); ++i) {  // symmetric
      const size_t matrix = i / (n * n) * n * n, row = i / n % n, column = i % n;
      products_gradient[i] = products_gradient[matrix + (row < column ? row * n + column : column * n + row)];
    }
    Context() = "metric " + std::to_string(wanted.metric) + ", " + std::to_string(wanted.queries) +
                " queries, " + std::to_string(wanted.groups) + " groups, width " +
                std::to_string(wanted.width) + ", " + std::to_string(wanted.codes) + " codes of width " +
                std::to_string(wanted.value_width) + (wanted.own_weights ? "" : ", weights shared") +
                (wanted.own_values ? "" : ", values shared");
  }

  ee_distances distances() const {
    return {query.data(), weights.data(), shape.queries, shape.groups,
            shape.width,  shape.codes,    shape.metric,  shape.own_weights};
  }

  Shape shape;
  Numbers<float> query, weights, values, centroids, gradient, shares, origin, sums_gradient,
      products_gradient;
  Numbers<int32_t> codes;
  Numbers<uint8_t> byte_codes;  // the same, if there are up to 256
};

// One sub-vector of a query, and the formulas of training.h for it.
class Reference {
 public:
  Reference(const Case& made, size_t query, size_t group)
      : made_(made), shape_(made.shape), query_(query), group_(group) {
    for (size_t i = 0; i < shape_.width; ++i) {
      const size_t column = query * shape_.groups * shape_.width + group * shape_.width + i;
      vector_.push_back({static_cast<double>(made.query[column])});
    }
    const Value square = Dot(vector_, vector_);
    if (shape_.metric == EE_COSINE) {
      inverse_ = square.exact > 1e-24 ? Value{1} / SquareRoot(square) : Value{0};
      for (const Value number : vector_) features_.push_back(number * inverse_);
    } else {
      features_ = vector_;
    }
    if (shape_.metric == EE_EUCLIDEAN) features_.push_back(square);
    features_.push_back({1});
  }

  const std::vector<Value>& features() const { return features_; }

  Value Weight(size_t feature, size_t code) const {
    return {static_cast<double>(made_.weights[WeightAt(feature, code)])};
  }
  size_t WeightAt(size_t feature, size_t code) const {
    const size_t matrix = shape_.own_weights ? group_ : 0;
    return (matrix * shape_.features() + feature) * shape_.codes + code;
  }
  size_t ValueAt(size_t code, size_t width) const {
    return ((shape_.own_values ? group_ : 0) * shape_.codes + code) * width;
  }
  size_t RowAt(size_t width) const { return (query_ * shape_.groups + group_) * width; }
  size_t code() const { return static_cast<size_t>(made_.codes[group_ * shape_.queries + query_]); }

  std::vector<Value> Distances() const {
    std::vector<Value> found;
    for (size_t k = 0; k < shape_.codes; ++k) {
      std::vector<Value> weights;
      for (size_t i = 0; i < shape_.features(); ++i) weights.push_back(Weight(i, k));
      found.push_back(Dot(features_, weights));
    }
    return found;
  }

  // Gradient with respect to distances: dr of training.h.
  std::vector<Value> SoftGradient() const {
    const std::vector<Value> distances = Distances();
    std::vector<Value> parts, of_choice;
    Value largest = distances[0];
    for (const Value distance : distances) {
      largest = {std::fmax(largest.exact, distance.exact), std::fmax(largest.error, distance.error)};
    }
    for (size_t k = 0; k < shape_.codes; ++k) {
      parts.push_back(Exponential((distances[k] - largest) / Value{static_cast<double>(kTemperature)}));
      std::vector<Value> value, gradient;
      for (size_t i = 0; i < shape_.value_width; ++i) {
        value.push_back({static_cast<double>(made_.values[ValueAt(k, shape_.value_width) + i])});
        gradient.push_back({static_cast<double>(made_.gradient[RowAt(shape_.value_width) + i])});
      }
      of_choice.push_back(Dot(gradient, value));
    }
    const Value total = Sum(parts), mean = Dot(parts, of_choice) / total;
    std::vector<Value> learned;
    for (size_t k = 0; k < shape_.codes; ++k) {
      const Value probability = parts[k] / total / Value{static_cast<double>(kTemperature)};
      learned.push_back(probability * (of_choice[k] - mean));
    }
    return learned;
  }

  // Gradient with respect to features, from a gradient of distances.
  std::vector<Value> OfFeatures(const std::vector<Value>& of_distances) const {
    std::vector<Value> learned;
    for (size_t i = 0; i < shape_.features(); ++i) {
      std::vector<Value> weights;
      for (size_t k = 0; k < shape_.codes; ++k) weights.push_back(Weight(i, k));
      learned.push_back(Dot(of_distances, weights));
    }
    return learned;
  }

  // Gradient with respect to the query by its features: by q itself, by |q|^2, whose gradient is 2 q, or by q
  // / |q|.
  std::vector<Value> OfQuery(const std::vector<Value>& of_features) const {
    std::vector<Value> learned;
    const size_t width = shape_.width;
    if (shape_.metric == EE_COSINE) {
      const std::vector<Value> direction(features_.begin(), features_.begin() + static_cast<long>(width));
      const Value along =
          Dot({of_features.begin(), of_features.begin() + static_cast<long>(width)}, direction);
      for (size_t i = 0; i < width; ++i) {
        learned.push_back(inverse_ * (of_features[i] - direction[i] * along));
      }
      return learned;
    }
    for (size_t i = 0; i < width; ++i) {
      const Value by_square =
          shape_.metric == EE_EUCLIDEAN ? Value{2} * vector_[i] * of_features[width] : Value{0};
      learned.push_back(of_features[i] + by_square);
    }
    return learned;
  }

  // x = features - origin.
  std::vector<Value> Moved() const {
    std::vector<Value> moved;
    for (size_t i = 0; i < shape_.features(); ++i) {
      moved.push_back(features_[i] -
                      Value{static_cast<double>(made_.origin[group_ * shape_.features() + i])});
    }
    return moved;
  }

  // shares[b] (sums_gradient + products_gradient x)
  std::vector<Value> OfFeaturesByProducts() const {
    const size_t n = shape_.features();
    const std::vector<Value> moved = Moved();
    std::vector<Value> learned;
    for (size_t i = 0; i < n; ++i) {
      std::vector<Value> row;
      for (size_t k = 0; k < n; ++k) {
        row.push_back({static_cast<double>(made_.products_gradient[(group_ * n + i) * n + k])});
      }
      const Value of_sum{static_cast<double>(made_.sums_gradient[group_ * n + i])};
      learned.push_back(share() * (Dot(row, moved) + of_sum));
    }
    return learned;
  }

  Value share() const { return {static_cast<double>(made_.shares[query_])}; }

 private:
  const Case& made_;
  const Shape& shape_;
  size_t query_, group_;
  std::vector<Value> vector_, features_;
  Value inverse_{0};
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_TRAINING_CASE_H_
