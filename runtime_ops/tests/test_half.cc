// Conversion of float16: all numbers, and those around the midpoint of each pair of neighbours.
#include "kernels/half.h"

#include "tests/call.h"

namespace edge_embed::testing {
namespace {

uint16_t Bits(double value) { return ToHalf(value).bits; }

void TestEveryHalf() {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    Context() = "half " + std::to_string(bits);
    const float got = ToFloat(Half{half});
    const double expected = DecodeHalf(half);
    if (std::isnan(expected)) {
      CHECK(std::isnan(got));
      CHECK(std::isnan(DecodeHalf(Bits(static_cast<double>(got)))));
    } else {
      CHECK(BitsOfFloat(got) == BitsOfFloat(static_cast<float>(expected)));  // also the sign of zero
      CHECK(Bits(expected) == half);
    }
  }
}

// Halfway between two neighbours, the result is the even one; beside the midpoint, it is the nearer one.
void TestRounding() {
  for (uint16_t half = 0; half < 0x7C00; ++half) {
    Context() = "half " + std::to_string(half);
    const uint16_t above = static_cast<uint16_t>(half + 1);
    const double low = DecodeHalf(half), high = above == 0x7C00 ? 65536.0 : DecodeHalf(above);
    const double middle = (low + high) / 2;
    const uint16_t even = half % 2 == 0 ? half : above;
    CHECK(Bits(middle) == even);
    CHECK(Bits(-middle) == (even | 0x8000));
    CHECK(Bits(std::nextafter(middle, 0.0)) == half);
    CHECK(Bits(std::nextafter(middle, 1e9)) == above);
    CHECK(Bits(std::nextafter(low, 1e9)) == half);
  }
}

// Via float, these two would be rounded to the midpoint first, and then to the even neighbour.
void TestThereIsOneRounding() {
  const double middle = 1.0 + std::ldexp(1.0, -11);
  CHECK(Bits(middle + std::ldexp(1.0, -40)) == 0x3C01);
  CHECK(Bits(1.0 + 3 * std::ldexp(1.0, -11) - std::ldexp(1.0, -40)) == 0x3C01);
}

void TestExtremes() {
  CHECK(Bits(0.0) == 0);
  CHECK(Bits(-0.0) == 0x8000);
  CHECK(Bits(1e300) == 0x7C00);
  CHECK(Bits(-std::numeric_limits<double>::infinity()) == 0xFC00);
  CHECK(Bits(std::numeric_limits<double>::denorm_min()) == 0);
  CHECK(Bits(-1e-300) == 0x8000);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestEveryHalf();
  TestRounding();
  TestThereIsOneRounding();
  TestExtremes();
  return 0;
}
