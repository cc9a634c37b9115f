// Sparse attention against its definition in double, with the instruction set of EDGE_EMBED_FORCE_ISA. Arrays
// end at a page without access. Values whose probability is zero are NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/check.h"
#include "tests/training_case.h"

namespace edge_embed::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kAlphas[] = {1, 1.25F, 1.5F, 2, 3};

// Arrays [B, T or S, H or G, width], as the projections of a layer write them.
struct Sizes {
  size_t batch, num_heads, num_kv_heads, queries, keys, width, value_width;
};

struct Drawn {
  Drawn(const Sizes& given, float scale, bool is_masked)
      : sizes(given),
        query(given.batch * given.queries * given.num_heads * given.width),
        key(given.batch * given.keys * given.num_kv_heads * given.width),
        value(given.batch * given.keys * given.num_kv_heads * given.value_width),
        mask(is_masked ? given.batch * given.queries * given.keys : 0),
        alphas(given.num_heads),
        out(given.batch * given.queries * given.num_heads * given.value_width, -7),
        probabilities(given.batch * given.num_heads * given.queries * given.keys, -7) {
    std::mt19937 random(static_cast<unsigned>(given.keys * 31 + given.width));
    std::normal_distribution<float> normal;
    for (const Numbers<float>* numbers : {&query, &key, &value, &mask}) {
      for (size_t i = 0; i < numbers->size(); ++i) (*numbers)[i] = normal(random);
    }
    for (size_t i = 0; i < query.size(); ++i) query[i] *= scale;
    for (size_t i = 0; i < mask.size(); ++i) {
      if (random() % 3 == 0 || i / given.keys == 1) mask[i] = -kInfinity;  // row 1 attends to nothing
    }
  }

  ee_attention Arguments() const {
    const Sizes& s = sizes;
    ee_attention made{};
    made.query = query.data();
    made.key = key.data();
    made.value = value.data();
    made.mask = mask.size() == 0 ? nullptr : mask.data();
    made.alphas = alphas.data();
    const auto strides = [](size_t* to, size_t positions, size_t num_heads, size_t width) {
      to[0] = positions * num_heads * width;
      to[1] = width;
      to[2] = num_heads * width;
    };
    strides(made.query_strides, s.queries, s.num_heads, s.width);
    strides(made.key_strides, s.keys, s.num_kv_heads, s.width);
    strides(made.value_strides, s.keys, s.num_kv_heads, s.value_width);
    strides(made.out_strides, s.queries, s.num_heads, s.value_width);
    made.mask_strides[0] = s.queries * s.keys;  // all attention heads share it
    made.mask_strides[2] = s.keys;
    made.num_heads = s.num_heads;
    made.num_kv_heads = s.num_kv_heads;
    made.queries = s.queries;
    made.keys = s.keys;
    made.width = s.width;
    made.value_width = s.value_width;
    made.scale = 0.5F;
    made.alpha_per_attention_head = 1;
    return made;
  }
  size_t rows() const { return sizes.batch * sizes.num_heads * sizes.queries; }

  Sizes sizes;
  Numbers<float> query, key, value, mask, alphas, out, probabilities;
};

// Scores of a row of the probabilities.
std::vector<float> ScoresOf(const Drawn& drawn, size_t row) {
  const Sizes& s = drawn.sizes;
  const size_t position = row % s.queries, number = row / s.queries % s.num_heads,
               batch = row / s.queries / s.num_heads;
  const size_t kv = number / (s.num_heads / s.num_kv_heads);
  std::vector<float> scores;
  for (size_t j = 0; j < s.keys; ++j) {
    double sum = 0;
    for (size_t i = 0; i < s.width; ++i) {
      const double key = double{drawn.key[((batch * s.keys + j) * s.num_kv_heads + kv) * s.width + i]};
      sum += key * double{drawn.query[((batch * s.queries + position) * s.num_heads + number) * s.width + i]};
    }
    const double added =
        drawn.mask.size() == 0 ? 0 : double{drawn.mask[(batch * s.queries + position) * s.keys + j]};
    scores.push_back(static_cast<float>(0.5 * sum + added));
  }
  return scores;
}

// Probabilities of the library's own entmax, which test_entmax.cc compares with its definition.
std::vector<float> Expected(const Drawn& drawn, size_t row) {
  const std::vector<float> scores = ScoresOf(drawn, row);
  std::vector<float> found(scores.size(), 0);
  if (*std::max_element(scores.begin(), scores.end()) == -kInfinity) return found;
  const size_t number = row / drawn.sizes.queries % drawn.sizes.num_heads;
  const ee_score_rows rows{scores.data(), &drawn.alphas[number], scores.size(), 0};
  ee_training_entmax(&rows, 0, 1, found.data());
  return found;
}

void CheckRow(const Drawn& drawn, size_t row) {
  const Sizes& s = drawn.sizes;
  const size_t position = row % s.queries, number = row / s.queries % s.num_heads,
               batch = row / s.queries / s.num_heads;
  const size_t kv = number / (s.num_heads / s.num_kv_heads);
  const std::vector<float> expected = Expected(drawn, row);
  const float* found = drawn.probabilities.data() + row * s.keys;
  // The power 1 / (alpha - 1) of alphas above 2 multiplies the rounding of scores near the limit.
  const double tolerance = drawn.alphas[number] > 2 ? 1e-2 : 1e-5;
  for (size_t j = 0; j < s.keys; ++j) CHECK(std::fabs(double{found[j]} - double{expected[j]}) <= tolerance);
  for (size_t i = 0; i < s.value_width; ++i) {
    double mean = 0;
    for (size_t j = 0; j < s.keys; ++j) {
      if (found[j] == 0) continue;
      mean += double{found[j]} *
              double{drawn.value[((batch * s.keys + j) * s.num_kv_heads + kv) * s.value_width + i]};
    }
    const float out = drawn.out[((batch * s.queries + position) * s.num_heads + number) * s.value_width + i];
    CHECK(std::fabs(double{out} - mean) <= 1e-5);
  }
}

constexpr Sizes kSizes[] = {
    {1, 1, 1, 1, 1, 1, 1},    {1, 1, 1, 1, 70, 17, 5},   {2, 2, 1, 3, 16, 8, 16},   {1, 2, 2, 7, 65, 3, 33},
    {2, 4, 2, 13, 64, 16, 7}, {1, 1, 1, 6, 200, 64, 64}, {1, 3, 1, 5, 129, 1, 100},
};

void TestAgainstDefinition() {
  for (const Sizes& sizes : kSizes) {
    for (const float alpha : kAlphas) {
      for (const bool is_masked : {false, true}) {
        for (const float scale : {0.1F, 4.0F}) {
          Context() = "keys " + std::to_string(sizes.keys) + ", alpha " + std::to_string(alpha) + ", mask " +
                      std::to_string(is_masked);
          Drawn drawn(sizes, scale, is_masked);
          for (size_t number = 0; number < sizes.num_heads; ++number)
            drawn.alphas[number] = number == 1 ? 1.5F : alpha;
          const ee_attention given = drawn.Arguments();
          CHECK(ee_training_attention(&given, 0, drawn.rows(), drawn.out.data(),
                                      drawn.probabilities.data()) == 0);
          for (size_t row = 0; row < drawn.rows(); ++row) CheckRow(drawn, row);
        }
      }
    }
  }
}

// Without probabilities, and with NaN as the values of zeros.
void TestValuesOfZerosAreNotRead() {
  for (const size_t queries : {size_t{1}, size_t{9}}) {
    Drawn drawn({1, 1, 1, queries, 100, 16, 24}, 3, false);
    drawn.alphas[0] = 2;
    const ee_attention given = drawn.Arguments();
    ee_training_attention(&given, 0, queries, drawn.out.data(), drawn.probabilities.data());
    const std::vector<float> before(drawn.out.data(), drawn.out.data() + drawn.out.size());
    size_t unused = 0;
    for (size_t j = 0; j < 100; ++j) {
      bool is_used = false;
      for (size_t row = 0; row < queries; ++row) is_used |= drawn.probabilities[row * 100 + j] > 0;
      if (is_used) continue;
      ++unused;
      std::fill_n(drawn.value.data() + j * 24, 24, kNaN);
    }
    CHECK(unused > 10);
    ee_training_attention(&given, 0, queries, drawn.out.data(), nullptr);
    for (size_t i = 0; i < before.size(); ++i) CHECK(drawn.out[i] == before[i]);
  }
}

void TestNumbersThatAreNotFinite() {
  for (const size_t queries : {size_t{1}, size_t{9}}) {
    for (const float alpha : kAlphas) {
      for (const float wrong : {kNaN, kInfinity}) {
        Drawn drawn({1, 1, 1, queries, 40, 4, 8}, 1, true);
        drawn.alphas[0] = alpha;
        for (size_t i = 0; i < drawn.mask.size(); ++i) drawn.mask[i] = i % 40 == 7 ? -kInfinity : 0;
        std::fill_n(drawn.key.data() + 7 * 4, 4, wrong);  // a masked key may hold anything
        const ee_attention given = drawn.Arguments();
        ee_training_attention(&given, 0, queries, drawn.out.data(), drawn.probabilities.data());
        for (size_t i = 0; i < drawn.out.size(); ++i) CHECK(std::isfinite(drawn.out[i]));
        drawn.mask[7] = 0;  // row 0 sees the key
        drawn.query[0] = drawn.query[1] = drawn.query[2] = drawn.query[3] = 1;
        ee_training_attention(&given, 0, queries, drawn.out.data(), drawn.probabilities.data());
        for (size_t i = 0; i < 8; ++i) CHECK(std::isnan(drawn.out[i]));
        for (size_t j = 0; j < 40; ++j) CHECK(std::isnan(drawn.probabilities[j]));
        for (size_t i = 8; i < drawn.out.size(); ++i) CHECK(std::isfinite(drawn.out[i]));
      }
    }
    for (const float alpha : {0.5F, 4.5F, kNaN}) {
      Drawn drawn({1, 1, 1, queries, 40, 4, 8}, 1, false);
      drawn.alphas[0] = alpha;
      const ee_attention given = drawn.Arguments();
      ee_training_attention(&given, 0, queries, drawn.out.data(), nullptr);
      for (size_t i = 0; i < drawn.out.size(); ++i) CHECK(std::isnan(drawn.out[i]));
    }
  }
}

// Only the rows of a part are written, and parts give the numbers of the whole.
void TestParts() {
  Drawn drawn({2, 2, 2, 9, 50, 8, 8}, 2, true), whole({2, 2, 2, 9, 50, 8, 8}, 2, true);
  for (const size_t number : {size_t{0}, size_t{1}}) drawn.alphas[number] = whole.alphas[number] = 1.5F;
  const ee_attention given = drawn.Arguments(), of_whole = whole.Arguments();
  ee_training_attention(&of_whole, 0, 36, whole.out.data(), whole.probabilities.data());
  ee_training_attention(&given, 5, 23, drawn.out.data(), drawn.probabilities.data());
  for (size_t i = 0; i < 36 * 50; ++i) {
    const bool is_in = i >= 5 * 50 && i < 23 * 50;
    CHECK(is_in ? std::fabs(drawn.probabilities[i] - whole.probabilities[i]) <= 1e-5F
                : drawn.probabilities[i] == -7);
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestAgainstDefinition();
  TestValuesOfZerosAreNotRead();
  TestNumbersThatAreNotFinite();
  TestParts();
  return 0;
}
