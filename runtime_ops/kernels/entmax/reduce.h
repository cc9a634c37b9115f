// One number from all elements of a vector: their sum, the largest or the smallest one. Halves are joined, as
// each step waits for the one before.
//
// All code of this file is in an unnamed namespace, because it is compiled once for each instruction set.
#ifndef EDGE_EMBED_KERNELS_ENTMAX_REDUCE_H_
#define EDGE_EMBED_KERNELS_ENTMAX_REDUCE_H_

#include "kernels/simd.h"

namespace edge_embed::entmax {
namespace {

template <class Number, size_t kCount>
struct VectorOf {
  typedef Number type __attribute__((vector_size(kCount * sizeof(Number))));
};

template <class Number, size_t kCount, class Join>
inline Number Reduced(typename VectorOf<Number, kCount>::type vector, const Join& join) {
  if constexpr (kCount * sizeof(Number) <= 16) {
    if constexpr (kCount == 2)
      return join(vector[0], vector[1]);
    else
      return join(join(vector[0], vector[2]), join(vector[1], vector[3]));
  } else {
    typename VectorOf<Number, kCount / 2>::type halves[2];
    __builtin_memcpy(halves, &vector, sizeof(halves));
    return Reduced<Number, kCount / 2>(join(halves[0], halves[1]), join);
  }
}

inline float Sum(Floats vector) {
  return Reduced<float, kLanes>(vector, [](auto a, auto b) { return a + b; });
}
inline float Largest(Floats vector) {
  return Reduced<float, kLanes>(vector, [](auto a, auto b) { return a > b ? a : b; });
}

}  // namespace
}  // namespace edge_embed::entmax

#endif  // EDGE_EMBED_KERNELS_ENTMAX_REDUCE_H_
