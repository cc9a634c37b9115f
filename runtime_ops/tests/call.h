// Calls of kernels in tests, with ids, outputs and scratch of exactly the stated size.
#ifndef EDGE_EMBED_TESTS_CALL_H_
#define EDGE_EMBED_TESTS_CALL_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "kernels/variant.h"
#include "tests/guarded_buffer.h"

namespace edge_embed::testing {

inline Ids ToIds(const std::vector<int64_t>& ids) { return {ids.data(), EE_INT64, ids.size()}; }
inline Ids ToIds(const std::vector<int32_t>& ids) { return {ids.data(), EE_INT32, ids.size()}; }

// The variant under test.
inline const Variant*& Tested() {
  static const Variant* tested = kVariants[kNumVariants - 1];
  return tested;
}
inline bool TestsReference() { return Tested() == kVariants[kNumVariants - 1]; }

// Runs the tests with every variant that this processor supports, and prints the names of the others.
template <typename Tests>
void ForEachVariant(const Tests& tests) {
  for (size_t i = 0; i < kNumVariants; ++i) {
    const bool runs = kVariants[i]->runs_here();
    std::printf("%s: %s\n", kVariants[i]->name, runs ? "tested" : "NOT RUN, this processor lacks it");
    std::fflush(stdout);
    Tested() = kVariants[i];
    if (runs) tests();
  }
}

template <class Table>
const Kernels<Table>& TestedKernels(const Table& table) {
  return KernelsOf(*Tested(), table);
}

template <class Table>
GuardedBuffer MakeScratch(const Table& table) {
  const Kernels<Table>& kernels = TestedKernels(table);
  uint64_t doubles;
  CHECK(Max(Max(kernels.gather.scratch(table), kernels.bag.scratch(table)), kernels.logits.scratch(table))
            .Get(&doubles));
  return GuardedBuffer(static_cast<size_t>(doubles) * sizeof(double));
}

inline double* Doubles(const GuardedBuffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }

// Logits [batch, all rows] of the rows begin .. end-1.
template <class Table>
ee_status RunLogits(const Table& table, const float* hidden, size_t batch, size_t begin, size_t end,
                    const Output& out, double* scratch, size_t* bad) {
  const LogitsKernel<Table>& kernel = TestedKernels(table).logits;
  uint64_t doubles;
  CHECK(kernel.Prepared(table, batch).Get(&doubles));
  const GuardedBuffer prepared(static_cast<size_t>(doubles) * sizeof(double));
  const LogitsInput input = kernel.Prepare(table, hidden, batch, Doubles(prepared));
  const LogitsOutput logits{out, static_cast<size_t>(table.num_embeddings), 0};
  return kernel.run(table, input, begin, end, logits, scratch, bad);
}

// float32 or float16 numbers, encoded without the tested code.
inline uint16_t EncodeHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double absolute = std::fabs(value);
  if (std::isnan(value)) return 0x7E00;
  if (absolute >= 65520.0) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = absolute < std::ldexp(1.0, -14) ? -14 : std::ilogb(absolute);
  double steps = std::nearbyint(std::ldexp(absolute, 10 - exponent));  // of 2^(exponent-10), ties to even
  if (steps >= 2048) {
    steps /= 2;
    ++exponent;
  }
  const int biased = steps >= 1024 ? exponent + 15 : 0;
  const int fraction = static_cast<int>(steps) - (biased > 0 ? 1024 : 0);
  return static_cast<uint16_t>(sign | (biased << 10) | fraction);
}

inline double DecodeHalf(uint16_t bits) {
  const int biased = bits >> 10 & 31, fraction = bits & 1023;
  double value = std::ldexp(fraction + (biased > 0 ? 1024 : 0), (biased > 0 ? biased : 1) - 25);
  if (biased == 31) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Numbers as an array of `type`, and their values after rounding to it.
class Encoded {
 public:
  Encoded(std::vector<double> values, ee_type type)
      : values_(std::move(values)), bytes_(values_.size() * Bytes(type)) {
    for (size_t k = 0; k < values_.size(); ++k)
      values_[k] = Put(values_[k], type, bytes_.data() + k * Bytes(type));
  }

  const std::vector<double>& values() const { return values_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

  static size_t Bytes(ee_type type) {
    if (type == EE_INT8 || type == EE_UINT8) return 1;
    return type == EE_FLOAT16 || type == EE_UINT16 ? 2 : 4;
  }

 private:
  template <typename T>
  static double PutAs(double value, unsigned char* to) {
    const T stored = static_cast<T>(value);
    std::memcpy(to, &stored, sizeof(stored));
    return static_cast<double>(stored);
  }

  static double Put(double value, ee_type type, unsigned char* to) {
    switch (type) {
      case EE_FLOAT16: {
        const uint16_t bits = EncodeHalf(value);
        std::memcpy(to, &bits, sizeof(bits));
        return DecodeHalf(bits);
      }
      case EE_INT8:
        return PutAs<int8_t>(value, to);
      case EE_UINT8:
        return PutAs<uint8_t>(value, to);
      case EE_UINT16:
        return PutAs<uint16_t>(value, to);
      case EE_UINT32:
        return PutAs<uint32_t>(value, to);
      case EE_INT32:
        return PutAs<int32_t>(value, to);
      default:
        return PutAs<float>(value, to);
    }
  }

  std::vector<double> values_;
  std::vector<unsigned char> bytes_;
};

// Bytes that end `misalign` bytes before a page without access.
class Placed {
 public:
  explicit Placed(const std::vector<unsigned char>& bytes, size_t misalign = 0)
      : buffer_(bytes.size() + misalign), size_(bytes.size()) {
    if (size_ > 0) std::memcpy(buffer_.data(), bytes.data(), size_);
  }

  const unsigned char* data() const { return buffer_.data(); }
  unsigned char* mutable_data() { return buffer_.data(); }
  size_t size() const { return size_; }

 private:
  GuardedBuffer buffer_;
  size_t size_;
};

inline double ReadOutput(const unsigned char* output, ee_type type, size_t index) {
  if (type == EE_FLOAT16) {
    uint16_t bits;
    std::memcpy(&bits, output + 2 * index, sizeof(bits));
    return DecodeHalf(bits);
  }
  float value;
  std::memcpy(&value, output + 4 * index, sizeof(value));
  return static_cast<double>(value);
}

// Reference kernels: half a ULP of the exact number, and the error of float64. Others: 4 ULP of the sum of
// the absolute values of the terms.
inline bool Rounded(double got, double exact, double magnitude, ee_type type) {
  const double half_unit = type == EE_FLOAT16 ? std::ldexp(1.0, -11) : std::ldexp(1.0, -24);
  const double tiny = type == EE_FLOAT16 ? std::ldexp(1.0, -25) : std::ldexp(1.0, -149);
  const double error = std::fabs(got - exact);
  return TestsReference() ? error <= half_unit * std::fabs(exact) + tiny + 1e-13 * magnitude
                          : error <= 8 * half_unit * magnitude + tiny;
}

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_CALL_H_
