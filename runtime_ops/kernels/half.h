// IEEE 754 binary16 by integer arithmetic. A compiler's own type calls a support library if the target has no
// instruction for it, and the freestanding build links none.
#ifndef EDGE_EMBED_KERNELS_HALF_H_
#define EDGE_EMBED_KERNELS_HALF_H_

#include <stdint.h>

namespace edge_embed {

struct Half {
  uint16_t bits;
};

inline float FloatOfBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline uint64_t BitsOfDouble(double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Exact. The function computes all cases and selects one by masks, so that loops over it are vectorised. No
// case uses a subnormal float, because a runtime may flush these to zero.
inline float ToFloat(Half half) {
  constexpr uint32_t kRebias = (127 - 15) << 23;
  constexpr uint32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half.bits & 0x7FFF) << 13;
  const uint32_t is_subnormal = 0 - static_cast<uint32_t>(magnitude < (1U << 23));
  const uint32_t is_not_finite = 0 - static_cast<uint32_t>(magnitude >= (31U << 23));
  const uint32_t normal =
      magnitude + kRebias + (is_not_finite & kRebias);  // all ones stay all ones: infinity and NaN
  const uint32_t subnormal =
      BitsOfFloat(FloatOfBits(kSmallestNormal + magnitude) - FloatOfBits(kSmallestNormal));
  return FloatOfBits((is_subnormal & subnormal) | (~is_subnormal & normal) | sign);
}

// Rounds to nearest, ties to even, in a single rounding. A conversion via float would round twice.
inline Half ToHalf(double value) {
  constexpr uint64_t kInfinity = uint64_t{0x7FF} << 52;
  const uint64_t bits = BitsOfDouble(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  const double absolute = value < 0 ? -value : value;

  uint64_t half;
  if (magnitude > kInfinity) {
    half = 0x7E00;  // NaN
  } else if (absolute >= 65520.0) {
    half = 0x7C00;  // at least halfway from the largest half to the next power of two
  } else if (absolute < 6.103515625e-05) {
    // Below 2^-14, halves are multiples of 2^-24, which is the last place of a double near 2^28.
    constexpr double kShift = 268435456.0;
    half = BitsOfDouble(absolute + kShift) - BitsOfDouble(kShift);
  } else {
    const uint64_t odd = magnitude >> 42 & 1;
    half = ((magnitude + (uint64_t{1} << 41) - 1 + odd) >> 42) - (uint64_t{1023 - 15} << 10);
  }
  return {static_cast<uint16_t>(half | sign)};
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_HALF_H_
