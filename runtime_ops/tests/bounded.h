// Numbers in double precision with an error bound for float32 arithmetic. Every operation propagates the
// errors of its operands and rounds once, and a sum rounds once for each term, in any order. Tolerances
// therefore follow from a formula.
#ifndef EDGE_EMBED_TESTS_BOUNDED_H_
#define EDGE_EMBED_TESTS_BOUNDED_H_

#include <cmath>
#include <vector>

namespace edge_embed::testing {

constexpr double kUnit = 0x1p-24, kDoubleUnit = 0x1p-53;  // half a ULP of 1
constexpr double kLeast = 0x1p-149;  // the smallest float32: a rounding near 0 may be as large

struct Value {
  double exact, error = 0;
};

inline Value Rounded(double exact, double error) {
  return {exact, error + kUnit * (std::fabs(exact) + error) + kLeast};
}
inline Value operator+(Value a, Value b) { return Rounded(a.exact + b.exact, a.error + b.error); }
inline Value operator-(Value a, Value b) { return Rounded(a.exact - b.exact, a.error + b.error); }
inline Value operator*(Value a, Value b) {
  return Rounded(a.exact * b.exact,
                 std::fabs(a.exact) * b.error + std::fabs(b.exact) * a.error + a.error * b.error);
}
inline Value operator/(Value a, Value b) {
  const double quotient = a.exact / b.exact;
  return Rounded(quotient, (a.error + std::fabs(quotient) * b.error) / (std::fabs(b.exact) - b.error));
}
inline Value SquareRoot(Value a) {
  const double root = std::sqrt(a.exact);
  return Rounded(root, root - std::sqrt(std::fmax(a.exact - a.error, 0)));
}
// Within 2 ULP, four roundings; at least 2^-100.
inline Value Exponential(Value a) {
  const double power = std::exp(a.exact), error = power * std::expm1(a.error);
  return {power, error + 4 * kUnit * (power + error) + 0x1p-99};
}

class Total {
 public:
  void Add(Value value) {
    exact_ += value.exact;
    error_ += value.error;
    magnitude_ += std::fabs(value.exact) + value.error;
  }
  // Each rounding is at most one ULP of the sum of the absolute values; the last one is that of the stored
  // number.
  Value After(size_t roundings, double unit = kUnit) const {
    return {exact_, error_ + static_cast<double>(roundings) * (unit * magnitude_ + kLeast)};
  }

 private:
  double exact_ = 0, error_ = 0, magnitude_ = 0;
};

inline Value Sum(const std::vector<Value>& terms) {
  Total total;
  for (const Value term : terms) total.Add(term);
  return total.After(terms.size());
}

inline Value Dot(const std::vector<Value>& a, const std::vector<Value>& b) {
  Total total;
  for (size_t i = 0; i < a.size(); ++i) total.Add(a[i] * b[i]);
  return total.After(a.size());
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_BOUNDED_H_
