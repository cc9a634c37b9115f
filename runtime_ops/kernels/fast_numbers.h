// Conversion of float32 arrays from and to float32 or float16, a vector at a time, for any length and
// alignment.
#ifndef EDGE_EMBED_KERNELS_FAST_NUMBERS_H_
#define EDGE_EMBED_KERNELS_FAST_NUMBERS_H_

#include "kernels/simd.h"
#include "kernels/use.h"

namespace edge_embed {
namespace {

// to[k] = from[k] for numbers of `type`.
__attribute__((noinline)) inline void WidenNumbers(const unsigned char* from, ee_type type, size_t count,
                                                   void* to) {
  if (type == EE_FLOAT32) {
    __builtin_memcpy(to, from, count * sizeof(float));
    return;
  }
  unsigned char* const floats = static_cast<unsigned char*>(to);
  size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) StoreFloats(LoadHalves(from + 2 * k), floats + 4 * k);
  if (k == count) return;
  Half rest[kLanes] = {};
  __builtin_memcpy(rest, from + 2 * k, (count - k) * sizeof(Half));
  const Floats widened = LoadHalves(rest);
  __builtin_memcpy(floats + 4 * k, &widened, (count - k) * sizeof(float));
}

// array[first + k] = from[k]
__attribute__((noinline)) inline void NarrowNumbers(const void* from, size_t count, const Output& array,
                                                    size_t first) {
  unsigned char* const to = static_cast<unsigned char*>(array.data) + first * SizeOf(array.type);
  if (array.type == EE_FLOAT32) {
    __builtin_memcpy(to, from, count * sizeof(float));
    return;
  }
  const unsigned char* const floats = static_cast<const unsigned char*>(from);
  size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) StoreHalves(LoadFloats(floats + 4 * k), to + 2 * k);
  if (k == count) return;
  Floats rest{};
  Half narrowed[kLanes];
  __builtin_memcpy(&rest, floats + 4 * k, (count - k) * sizeof(float));
  StoreHalves(rest, narrowed);
  __builtin_memcpy(to + 2 * k, narrowed, (count - k) * sizeof(Half));
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_FAST_NUMBERS_H_
