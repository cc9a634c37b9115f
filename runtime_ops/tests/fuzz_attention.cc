// Fuzz target: sizes, strides, masks, alphas and numbers of sparse attention. For any input, the kernel must
// stay inside its arrays, write the rows of its part only, and give what its definition gives in double.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/fuzz_input.h"
#include "training/training.h"

namespace {

using namespace edge_embed::testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = -7;
constexpr double kMostAlpha = 4;
constexpr size_t kMostCompared = 3;      // rows; the definition takes powers
constexpr double kMostMagnitude = 1e37;  // beyond, sums in float may be infinite

// Numbers [batch, attention heads, positions, width] in a heap block that fits exactly, in one of the orders
// of layers.
struct Array {
  size_t strides[3];
  Block block;

  static Array Of(Reader& in, size_t batch, size_t num_heads, size_t positions, size_t width) {
    const size_t gap = in.Take<uint8_t>() % 4 == 0 ? 3 : 0, row = width + gap;
    const bool is_by_position = (in.Take<uint8_t>() & 1) != 0;
    const size_t of_attention_head = is_by_position ? row : positions * row;
    const size_t of_position = is_by_position ? num_heads * row : row;
    const size_t last = batch * num_heads * positions;  // rows; no gap after the last one
    return {{positions * num_heads * row, of_attention_head, of_position},
            Block((last * row - (last ? gap : 0)) * sizeof(float))};
  }
  float* data() const { return reinterpret_cast<float*>(block.data.get()); }
  size_t count() const { return block.size / sizeof(float); }
  float* At(size_t sequence, size_t attention_head, size_t position) const {
    return data() + sequence * strides[0] + attention_head * strides[1] + position * strides[2];
  }
};

// Numbers of one kind, drawn from a seed of the input, and a few that the input states.
void Fill(Reader& in, const Array& array) {
  const auto kind = in.Take<uint8_t>();
  uint32_t state = in.Take<uint32_t>() | 1U;
  for (size_t i = 0; i < array.count(); ++i) {
    state ^= state << 13U;
    state ^= state >> 17U;
    state ^= state << 5U;
    const float number = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
    array.data()[i] = kind < 64    ? std::round(number * 2)
                      : kind < 192 ? number * 2
                                   : number * static_cast<float>(kind);
  }
  const size_t stated = in.Take<uint8_t>() % 8;
  for (size_t i = 0; i < stated && array.count() > 0; ++i) {
    const auto what = in.Take<uint8_t>();
    array.data()[in.Take<uint16_t>() % array.count()] = what < 60    ? kInfinity
                                                        : what < 120 ? -kInfinity
                                                        : what < 160 ? NAN
                                                                     : in.Take<float>();
  }
}

void MaskKeys(Reader& in, const Array& mask) {
  const auto kind = in.Take<uint8_t>();
  uint32_t state = in.Take<uint32_t>() | 1U;
  for (size_t i = 0; i < mask.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    const bool is_out = kind < 100 ? state % 3 > 0 : kind < 140 || (kind < 200 && i / 32 % 3 > 0);
    if (is_out && (state >> 24U) > kind % 16) mask.data()[i] = -kInfinity;
  }
}

float TakeAlpha(Reader& in) {
  const auto kind = in.Take<uint8_t>();
  return kind < 240 ? 1 + static_cast<float>(kind % 31) / 10 : in.Take<float>();
}

// A finite factor that float may round to infinity, or to 0, which gives NaN with infinity.
bool IsBeyondFloat(double factor) {
  const double magnitude = std::fabs(factor);
  return std::isfinite(factor) && (magnitude > kMostMagnitude || (magnitude < 1e-35 && magnitude > 0));
}

// Scores of a row in double, and the bound of their rounding in float.
struct Row {
  std::vector<double> scores;
  std::vector<bool> is_out;
  double rounding = 0, magnitude = 0;
  bool is_nan = false;  // as the definition has it
};

Row ScoresOf(const ee_attention& of, const float* query, const float* key, const float* mask) {
  Row row;
  for (size_t j = 0; j < of.keys; ++j, key += of.key_strides[2]) {
    const double added = mask == nullptr ? 0 : double{mask[j]};
    double sum = added, magnitude = std::isfinite(added) ? std::fabs(added) : 0;
    for (size_t i = 0; i < of.width; ++i) {
      const double product = double{of.scale} * double{query[i]} * double{key[i]};
      if (IsBeyondFloat(double{of.scale} * double{query[i]})) row.magnitude = HUGE_VAL;
      sum += product;
      magnitude += std::isfinite(product) ? std::fabs(product) : 0;
    }
    row.is_out.push_back(mask != nullptr && mask[j] == -kInfinity);
    row.scores.push_back(row.is_out[j] ? -HUGE_VAL : sum);
    if (row.is_out[j]) continue;
    row.is_nan |= std::isnan(sum) || sum == HUGE_VAL;
    row.magnitude = std::fmax(row.magnitude, magnitude);
  }
  row.rounding = row.magnitude * static_cast<double>(of.width + 4) * double{FLT_EPSILON} + 1e-35;
  return row;
}

// exp_c(y) = max(0, 1 + c y)^(1 / c)
double Power(double y, double c) { return c == 0 ? std::exp(y) : std::pow(std::fmax(0, 1 + c * y), 1 / c); }

std::vector<double> Probabilities(const std::vector<double>& scores, double alpha) {
  const double c = alpha - 1, highest = *std::max_element(scores.begin(), scores.end());
  double low = c == 0 ? -std::log(static_cast<double>(scores.size()))
                      : std::expm1(-c * std::log(static_cast<double>(scores.size()))) / c,
         high = 0;
  std::vector<double> p(scores.size());
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (size_t j = 0; j < p.size(); ++j) sum += p[j] = Power(scores[j] - highest + middle, c);
    (sum < 1 ? low : high) = middle;
  }
  return p;
}

// The largest difference of probabilities whose scores differ by `rounding`, which moves the threshold as
// much. The Jacobian is at most 1 for alphas up to 2; beyond, |x^e - y^e| <= |x - y|^e for e = 1 / c below 1.
double Tolerance(double rounding, double alpha, size_t keys) {
  const double c = alpha - 1, of_kernel = alpha > 2 ? 1e-4 : 1e-5;
  if (c <= 1) return rounding * std::sqrt(static_cast<double>(keys)) + of_kernel;
  return std::pow(2 * c * (rounding + 2e-7), 1 / c) + of_kernel;
}

// Probabilities are all NaN, all 0, or from 0 to 1 with the sum 1.
void CheckSum(const float* p, size_t keys) {
  double sum = 0;
  for (size_t j = 0; j < keys; ++j) {
    CHECK(std::isnan(p[j]) == std::isnan(p[0]));
    CHECK(std::isnan(p[j]) || (p[j] >= 0 && p[j] <= 1.0001F));
    sum += double{p[j]};
  }
  CHECK(std::isnan(sum) || sum == 0 || std::fabs(sum - 1) < 1e-3);
}

// The output is the mean of the values by the probabilities that were found; others may hold anything.
void CheckMean(const ee_attention& of, const float* p, const float* value, const float* out) {
  for (size_t i = 0; i < of.value_width; ++i) {
    double mean = 0, magnitude = 0;
    for (size_t j = 0; j < of.keys; ++j) {
      if (p[j] == 0) continue;
      mean += double{p[j]} * double{value[j * of.value_strides[2] + i]};
      magnitude += std::fabs(double{p[j]} * double{value[j * of.value_strides[2] + i]});
    }
    if (std::isnan(mean) || std::isinf(mean)) {
      CHECK(std::isnan(mean) ? std::isnan(out[i]) : double{out[i]} == mean);
    } else if (magnitude < kMostMagnitude) {
      CHECK(std::fabs(double{out[i]} - mean) <=
            magnitude * static_cast<double>(of.keys + 4) * double{FLT_EPSILON} + 1e-35);
    }
  }
}

void CheckProbabilities(const Row& row, double alpha, const float* p) {
  const size_t keys = row.scores.size();
  const bool has_none = std::all_of(row.is_out.begin(), row.is_out.end(), [](bool is_out) { return is_out; });
  if (has_none) {
    for (size_t j = 0; j < keys; ++j) CHECK(p[j] == 0);
    return;
  }
  if (row.magnitude >= kMostMagnitude) return;
  const double highest = *std::max_element(row.scores.begin(), row.scores.end());
  if (row.is_nan || highest == -HUGE_VAL || !(alpha >= 1 && alpha <= kMostAlpha)) {
    for (size_t j = 0; j < keys; ++j) CHECK(std::isnan(p[j]));
    return;
  }
  const std::vector<double> expected = Probabilities(row.scores, alpha);
  const double tolerance = Tolerance(row.rounding, alpha, keys);
  for (size_t j = 0; j < keys; ++j) CHECK(std::fabs(double{p[j]} - expected[j]) <= tolerance);
}

size_t TakeSize(Reader& in, size_t most) { return 1 + in.Take<uint8_t>() % most; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_attention of{};
  const size_t batch = TakeSize(in, 2);
  of.num_kv_heads = TakeSize(in, 2);
  of.num_heads = of.num_kv_heads * TakeSize(in, 2);
  of.queries = TakeSize(in, 15);
  of.keys = TakeSize(in, in.Take<uint8_t>() < 200 ? 24 : 160);
  of.width = TakeSize(in, 20);
  of.value_width = in.Take<uint8_t>() < 200 ? TakeSize(in, 9) - 1 : TakeSize(in, 150);
  const auto factor = in.Take<uint8_t>();
  of.scale = factor < 250 ? 0.125F * static_cast<float>(1 + factor % 16) : in.Take<float>();
  const bool is_known_scale = of.scale >= 0x1p-20F && of.scale <= 0x1p20F;

  const Array query = Array::Of(in, batch, of.num_heads, of.queries, of.width);
  const Array key = Array::Of(in, batch, of.num_kv_heads, of.keys, of.width);
  const Array value = Array::Of(in, batch, of.num_kv_heads, of.keys, of.value_width);
  const Array out = Array::Of(in, batch, of.num_heads, of.queries, of.value_width);
  const auto repeats = in.Take<uint8_t>();  // dimensions in which the mask repeats, and whether there is one
  const bool has_mask = repeats % 3 > 0;
  Array mask = Array::Of(in, repeats & 4 ? 1 : batch, repeats & 8 ? 1 : of.num_heads,
                         repeats & 16 ? 1 : of.queries, of.keys);
  for (size_t i = 0; i < 3; ++i) {
    if ((repeats & (4U << i)) != 0) mask.strides[i] = 0;
  }
  for (const Array* each : {&query, &key, &value, static_cast<const Array*>(&mask)}) Fill(in, *each);
  MaskKeys(in, mask);
  std::fill_n(out.data(), out.count(), kUntouched);

  of.alpha_per_attention_head = in.Take<uint8_t>() & 1;
  const Block alpha_block((of.alpha_per_attention_head != 0 ? of.num_heads : 1) * sizeof(float));
  auto* alphas = reinterpret_cast<float*>(alpha_block.data.get());
  for (size_t i = 0; i < alpha_block.size / sizeof(float); ++i) alphas[i] = TakeAlpha(in);

  of.query = query.data();
  of.key = key.data();
  of.value = value.data();
  of.mask = has_mask ? mask.data() : nullptr;
  of.alphas = alphas;
  std::copy_n(query.strides, 3, of.query_strides);
  std::copy_n(key.strides, 3, of.key_strides);
  std::copy_n(value.strides, 3, of.value_strides);
  std::copy_n(mask.strides, 3, of.mask_strides);
  std::copy_n(out.strides, 3, of.out_strides);

  const size_t rows = batch * of.num_heads * of.queries;
  const bool is_part = (in.Take<uint8_t>() & 3) == 0;
  const size_t begin = is_part ? in.Take<uint8_t>() % rows : 0;
  const size_t end = is_part ? begin + in.Take<uint8_t>() % (rows - begin + 1) : rows;
  const Block found(rows * of.keys * sizeof(float));
  auto* probabilities = reinterpret_cast<float*>(found.data.get());
  std::fill_n(probabilities, rows * of.keys, kUntouched);
  CHECK(ee_training_attention(&of, begin, end, out.data(), probabilities) == 0);

  const size_t compared = in.Take<uint8_t>();
  for (size_t row = 0; row < rows; ++row) {
    const size_t position = row % of.queries, attention_head = row / of.queries % of.num_heads;
    const size_t sequence = row / of.queries / of.num_heads,
                 kv = attention_head / (of.num_heads / of.num_kv_heads);
    const float* p = probabilities + row * of.keys;
    const float* row_out = out.At(sequence, attention_head, position);
    if (row < begin || row >= end) {
      for (size_t j = 0; j < of.keys; ++j) CHECK(p[j] == kUntouched);
      for (size_t i = 0; i < of.value_width; ++i) CHECK(row_out[i] == kUntouched);
      continue;
    }
    CheckSum(p, of.keys);
    CheckMean(of, p, value.At(sequence, kv, 0), row_out);
    if (!is_known_scale || (row + compared) % rows >= kMostCompared) continue;
    const Row expected = ScoresOf(of, query.At(sequence, attention_head, position), key.At(sequence, kv, 0),
                                  has_mask ? mask.At(sequence, attention_head, position) : nullptr);
    CheckProbabilities(expected, double{alphas[of.alpha_per_attention_head != 0 ? attention_head : 0]}, p);
  }

  // Without probabilities, the output is the same.
  const Array again{{out.strides[0], out.strides[1], out.strides[2]}, Block(out.block.size)};
  std::fill_n(again.data(), again.count(), kUntouched);
  CHECK(ee_training_attention(&of, begin, end, again.data(), nullptr) == 0);
  for (size_t i = 0; i < out.count(); ++i) {
    const float one = out.data()[i], other = again.data()[i];
    CHECK(one == other || (std::isnan(one) && std::isnan(other)));
  }
  return 0;
}
