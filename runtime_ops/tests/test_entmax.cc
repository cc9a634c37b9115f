// Sparse activations against their definition in long double, with the instruction set of
// EDGE_EMBED_FORCE_ISA. Arrays end at a page without access.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/check.h"
#include "tests/training_case.h"

namespace edge_embed::testing {
namespace {

using Row = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kLengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100, 1000};
constexpr float kAlphas[] = {1, 1.0000001F, 1.001F, 1.25F, 1.49F, 1.5F, 1.9F, 1.999F, 2, 3, 4};

// Probabilities of finite scores by bisection.
std::vector<double> Defined(const Row& scores, float alpha) {
  const long double c = static_cast<long double>(alpha) - 1;
  const float largest = *std::max_element(scores.begin(), scores.end());
  const auto term = [&](size_t i, long double mu) {
    const long double y = static_cast<long double>(scores[i]) - largest + mu;
    if (c == 0) return std::exp(y);
    return c * y > -1 ? std::exp(std::log1p(c * y) / c) : 0;
  };
  const auto sum = [&](long double mu) {
    long double all = 0;
    for (size_t i = 0; i < scores.size(); ++i) all += term(i, mu);
    return all;
  };
  long double low = -40, high = 0;
  for (int step = 0; step < 80; ++step) {
    const long double middle = (low + high) / 2;
    (sum(middle) < 1 ? low : high) = middle;
  }
  std::vector<double> found;
  for (size_t i = 0; i < scores.size(); ++i) found.push_back(static_cast<double>(term(i, high)));
  return found;
}

Row Random(size_t n, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Row numbers(n);
  for (float& number : numbers) number = scale * normal(random);
  return numbers;
}

// A copy that ends at a page without access.
class Guarded : public Numbers<float> {
 public:
  explicit Guarded(const Row& row) : Numbers(row.size()) { std::copy(row.begin(), row.end(), data()); }
  Row row() const { return Row(data(), data() + size()); }
};

Row Probabilities(const Row& row, float alpha) {
  const Guarded scores(row), found(Row(row.size(), -7));
  const ee_score_rows rows{scores.data(), &alpha, scores.size(), 0};
  ee_training_entmax(&rows, 0, 1, found.data());
  return found.row();
}

void CheckNear(const Row& got, const std::vector<double>& expected, double tolerance) {
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(double{got[i]} - expected[i]) <= tolerance);
}

template <class Function>
void ForEachCase(const Function& function) {
  for (const size_t n : kLengths) {
    for (const float scale : {0.01F, 1.0F, 30.0F}) {
      for (const float alpha : kAlphas) {
        Context() = "n " + std::to_string(n) + ", scale " + std::to_string(scale) + ", alpha " +
                    std::to_string(alpha);
        function(Random(n, scale, static_cast<unsigned>(n)), alpha);
      }
    }
  }
}

void TestProbabilities() {
  ForEachCase([](const Row& scores, float alpha) {
    CheckNear(Probabilities(scores, alpha), Defined(scores, alpha), alpha > 2 ? 1e-6 : 3e-7);
  });
}

// Derivatives by differences of the definition, away from the places where the support changes.
void TestGradients() {
  ForEachCase([](const Row& scores, float alpha) {
    if (scores.size() > 33 || alpha > 2) return;
    const Guarded given(Random(scores.size(), 1, 99)), p(Probabilities(scores, alpha));
    const Guarded of_scores(Row(scores.size(), -7)), of_alpha(Row(1, -7));
    const ee_score_rows rows{p.data(), &alpha, p.size(), 0};
    ee_training_entmax_backward(&rows, given.data(), 0, 1, of_scores.data());
    ee_training_entmax_alpha_backward(&rows, given.data(), 0, 1, of_alpha.data());
    double sums = 0, products = 0;
    std::vector<double> s;
    for (size_t i = 0; i < p.size(); ++i) {
      s.push_back(p[i] > 0 ? std::pow(double{p[i]}, 2 - double{alpha}) : 0);
      sums += s[i];
      products += s[i] * double{given[i]};
    }
    for (size_t i = 0; i < p.size(); ++i) s[i] *= double{given[i]} - products / sums;
    CheckNear(of_scores.row(), s, 1e-5);

    const float wide = 0.01F, low = std::max(1.0F, alpha - wide), high = alpha + wide;
    const std::vector<double> below = Defined(scores, low), above = Defined(scores, high);
    double expected = 0, change = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double slope = (above[i] - below[i]) / (double{high} - double{low});
      expected += double{given[i]} * slope;
      change += std::fabs(double{given[i]} * slope);
    }
    CHECK(std::fabs(double{of_alpha[0]} - expected) <= 0.1 * change + 0.01);
  });
}

void TestRowsThatAreNotFinite() {
  for (const float alpha : kAlphas) {
    for (const size_t n : {size_t{1}, size_t{5}, size_t{40}, size_t{200}}) {
      for (const float value : {kNaN, kInfinity}) {
        Row scores = Random(n, 1, 3);
        scores[n / 2] = value;
        const Row found = Probabilities(scores, alpha);
        for (size_t i = 0; i < n; ++i) CHECK(std::isnan(found[i]));
        const Row nothing = Probabilities(Row(n, -kInfinity), alpha);
        for (size_t i = 0; i < n; ++i) CHECK(std::isnan(nothing[i]));
      }
      Row scores(n + 3, -kInfinity);
      const Row finite = Random(n, 1, 3);
      for (size_t i = 0; i < n; ++i) scores[i] = finite[i];
      const Row found = Probabilities(scores, alpha), expected = Probabilities(finite, alpha);
      for (size_t i = 0; i < n; ++i) CHECK(std::fabs(found[i] - expected[i]) <= 1e-7F);
      for (size_t i = n; i < n + 3; ++i) CHECK(found[i] == 0);
    }
  }
}

void TestAlphasOutOfRange() {
  for (const float alpha : {kNaN, 0.5F, -1.0F, 4.5F, kInfinity}) {
    for (const float found : Probabilities({1, 2, 3}, alpha)) CHECK(std::isnan(found));
  }
}

void TestEqualScores() {
  for (const float alpha : kAlphas) {
    const Row found = Probabilities(Row(30000, -3e38F), alpha);
    for (size_t i = 0; i < found.size(); ++i) CHECK(std::fabs(found[i] * 30000 - 1) <= 1e-3F);
  }
}

// Rows whose groups of scores without a candidate are read once: with few and many such groups, and a part of
// a group at the end.
void TestLongRows() {
  const size_t n = 8213, step = 331;
  for (const float alpha : {1.5F, 2.0F}) {
    for (const float scale : {1e-5F, 1.0F}) {
      Context() = "long row, scale " + std::to_string(scale) + ", alpha " + std::to_string(alpha);
      Row scores = Random(n, scale, 7);
      scores[n - 1] = *std::max_element(scores.begin(), scores.end());
      CheckNear(Probabilities(scores, alpha), Defined(scores, alpha), 3e-7);
      for (const size_t place : {size_t{0}, size_t{77}, n / 2, n - 1}) {
        for (const float value : {kNaN, kInfinity}) {
          Row other = scores;
          other[place] = value;
          for (const float found : Probabilities(other, alpha)) CHECK(std::isnan(found));
        }
      }
    }
    const Row few = Random(40, 1, 5), expected = Probabilities(few, alpha);
    Row scores(few.size() * step, -kInfinity);
    for (size_t i = 0; i < few.size(); ++i) scores[i * step] = few[i];
    const Row found = Probabilities(scores, alpha);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(std::fabs(found[i] - (i % step == 0 ? expected[i / step] : 0)) <= 1e-7F);
    }
  }
}

// Rows whose candidates, side by side, are about as many as the largest scores of groups, or more.
void TestLongRowsWithBlock() {
  const size_t n = 8213, begin = 4001, counts[] = {1, 1017, 1021, 1025, 2041, 2045, 2049, 3000};
  for (const float alpha : {1.5F, 2.0F}) {
    for (const size_t count : counts) {
      Context() = "block of " + std::to_string(count) + ", alpha " + std::to_string(alpha);
      const Row block = Random(count, 1e-5F, 3), expected = Probabilities(block, alpha);
      Row scores(n, -5);
      std::copy(block.begin(), block.end(), scores.begin() + begin);
      const Row found = Probabilities(scores, alpha);
      for (size_t i = 0; i < n; ++i) {
        const bool is_inside = i >= begin && i - begin < count;
        CHECK(is_inside ? std::fabs(found[i] - expected[i - begin]) <= 1e-7F : found[i] == 0);
      }
    }
  }
}

// Rows take their steps together: each is what it is alone, beside rows of other spreads and those that are
// NaN.
void TestRowsAtOnce() {
  const size_t count = 7, of_nan = 2, of_nothing = 5, lengths[] = {1, 3, 31, 64, 100, 512, 600, 1500, 2500};
  for (const float alpha : {1.5F, 2.0F}) {
    for (const size_t n : lengths) {
      Context() =
          std::to_string(count) + " rows of " + std::to_string(n) + ", alpha " + std::to_string(alpha);
      Row all;
      for (size_t row = 0; row < count; ++row) {
        Row scores = Random(n,
                            row % 3 == 0   ? 0.01F
                            : row % 3 == 1 ? 1.0F
                                           : 30.0F,
                            static_cast<unsigned>(row));
        if (row == of_nan) scores[n / 2] = kNaN;
        if (row == of_nothing) scores.assign(n, -kInfinity);
        all.insert(all.end(), scores.begin(), scores.end());
      }
      const Guarded scores(all), found(Row(all.size(), -7));
      const ee_score_rows rows{scores.data(), &alpha, n, 0};
      ee_training_entmax(&rows, 0, count, found.data());
      for (size_t row = 0; row < count; ++row) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * n);
        const Row expected = Probabilities(Row(begin, begin + static_cast<std::ptrdiff_t>(n)), alpha);
        const bool is_nan = row == of_nan || row == of_nothing;
        for (size_t i = 0; i < n; ++i) {
          CHECK(is_nan ? std::isnan(found[row * n + i]) : found[row * n + i] == expected[i]);
        }
      }
    }
  }
}

// Every row has its alpha, and only the rows of a part are written.
void TestParts() {
  const size_t n = 19;
  const Guarded scores(Random(3 * n, 1, 5)), alphas(Row(3)), found(Row(3 * n, -7));
  for (size_t row = 0; row < 3; ++row) alphas[row] = 1 + 0.5F * static_cast<float>(row);
  const ee_score_rows rows{scores.data(), alphas.data(), n, 1};
  ee_training_entmax(&rows, 1, 3, found.data());
  for (size_t i = 0; i < n; ++i) CHECK(found[i] == -7);
  for (size_t row = 1; row < 3; ++row) {
    const float* begin = scores.data() + row * n;
    const Row expected = Probabilities(Row(begin, begin + n), alphas[row]);
    for (size_t i = 0; i < n; ++i) CHECK(found[row * n + i] == expected[i]);
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestProbabilities();
  TestGradients();
  TestRowsThatAreNotFinite();
  TestAlphasOutOfRange();
  TestEqualScores();
  TestLongRows();
  TestLongRowsWithBlock();
  TestRowsAtOnce();
  TestParts();
  return 0;
}
