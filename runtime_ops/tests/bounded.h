// Numbers in double precision that carry how far float32 arithmetic may be from them: every operation passes
// on the errors of its operands and rounds once, every sum once a term, in whatever order. So tolerances
// follow from a formula.
#ifndef EDGE_EMBED_TESTS_BOUNDED_H_
#define EDGE_EMBED_TESTS_BOUNDED_H_

#include <cmath>
#include <vector>

namespace edge_embed::testing {

constexpr double kUnit = 0x1p-24, kDoubleUnit = 0x1p-53;  // half a unit in the last place of 1
constexpr double kLeast = 0x1p-149;                       // the least float32: what a rounding near 0 may be

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
// Within two units in the last place, four roundings; 2^-100 is as small as it gets.
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
  // Each rounding is at most a unit of all magnitudes; the last one of what it is stored as.
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
