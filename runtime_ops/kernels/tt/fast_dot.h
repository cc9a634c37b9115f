// out[b, i] = sum over k of states[b, k] * rows[i, k], in float32.
//
// Rounding: every lane adds runs of eight terms. Runs are added in pairs, and then the lanes. The numbers
// after the last whole vector are added in float64.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_DOT_H_
#define EDGE_EMBED_KERNELS_TT_FAST_DOT_H_

#include "kernels/tt/fast_chain.h"

namespace edge_embed::tt {
namespace {

struct Dots {
  const unsigned char* rows;    // float32 [num_rows, count]
  const unsigned char* states;  // float32 [num_states, count]
  size_t num_rows, num_states, count;
  LogitsOutput out;
  size_t first_state, first_row;  // destination of the dot product of states[0] and rows[0]
};

template <size_t kWidth>
__attribute__((always_inline)) inline float SumOfLanes(const typename Vector<kWidth>::Type& vector) {
  if constexpr (kWidth == 1) {
    return vector;
  } else {
    using Half = typename Vector<kWidth / 2>::Type;
    Half halves[2];
    static_assert(sizeof(halves) == sizeof(vector));
    __builtin_memcpy(halves, &vector, sizeof(vector));
    return SumOfLanes<kWidth / 2>(halves[0] + halves[1]);
  }
}

// sums[i] = the sum of the lanes of vectors[i].
template <size_t kWidth>
__attribute__((always_inline)) inline void SumFour(const typename Vector<kWidth>::Type (&vectors)[4],
                                                   float (&sums)[4]) {
  using V = typename Vector<kWidth>::Type;
  if constexpr (kWidth == 4) {
    const V low01 = __builtin_shufflevector(vectors[0], vectors[1], 0, 4, 1, 5);
    const V high01 = __builtin_shufflevector(vectors[0], vectors[1], 2, 6, 3, 7);
    const V low23 = __builtin_shufflevector(vectors[2], vectors[3], 0, 4, 1, 5);
    const V high23 = __builtin_shufflevector(vectors[2], vectors[3], 2, 6, 3, 7);
    const V sum01 = low01 + high01, sum23 = low23 + high23;
    const V all =
        __builtin_shufflevector(sum01, sum23, 0, 1, 4, 5) + __builtin_shufflevector(sum01, sum23, 2, 3, 6, 7);
    __builtin_memcpy(sums, &all, sizeof(sums));
  } else {
    using Half = typename Vector<kWidth / 2>::Type;
    Half halves[4];
    for (size_t i = 0; i < 4; ++i) {
      Half parts[2];
      __builtin_memcpy(parts, &vectors[i], sizeof(parts));
      halves[i] = parts[0] + parts[1];
    }
    SumFour<kWidth / 2>(halves, sums);
  }
}

// Adds the numbers after the last whole vector to the sums, each rounded once.
__attribute__((noinline)) void AddRest(const unsigned char* row, const unsigned char* state, size_t begin,
                                       size_t end, float* sum) {
  double rest = static_cast<double>(*sum);
  for (size_t k = begin; k < end; ++k) {
    rest += static_cast<double>(Load<float>(row, k)) * static_cast<double>(Load<float>(state, k));
  }
  *sum = static_cast<float>(rest);
}

// kRows is 4 or 1.
template <size_t kRows, size_t kStates>
__attribute__((noinline)) void DotTile(const Dots& dots, size_t row, size_t state) {
  constexpr size_t kCount = kRows * kStates, kRun = 8;
  const size_t step = dots.count * sizeof(float);
  const unsigned char* rows = dots.rows + row * step;
  const unsigned char* states = dots.states + state * step;
  PairwiseSum<Floats, kCount> total;
  Floats run[kCount];
  size_t left = dots.count / kLanes, at = 0;
  while (true) {
    EDGE_EMBED_UNROLL
    for (size_t i = 0; i < kCount; ++i) run[i] = Floats{};
    const size_t terms = left < kRun ? left : kRun;
#pragma GCC unroll 1
    for (size_t term = 0; term < terms; ++term, at += sizeof(Floats)) {
      Floats vectors[kRows];
      EDGE_EMBED_UNROLL
      for (size_t i = 0; i < kRows; ++i) vectors[i] = LoadVector<Floats>(rows + i * step + at);
      EDGE_EMBED_UNROLL
      for (size_t b = 0; b < kStates; ++b) {
        const Floats factor = LoadVector<Floats>(states + b * step + at);
        EDGE_EMBED_UNROLL
        for (size_t i = 0; i < kRows; ++i) run[b * kRows + i] += factor * vectors[i];
      }
    }
    left -= terms;
    if (left == 0) break;
    total.Add(run);
  }
  total.Finish(run);
  for (size_t b = 0; b < kStates; ++b) {
    float sums[kRows];
    if constexpr (kRows == 4) {
      SumFour<kLanes>(reinterpret_cast<Floats(&)[4]>(run[b * 4]), sums);
    } else {
      sums[0] = SumOfLanes<kLanes>(run[b]);
    }
    const size_t whole = at / sizeof(float);
    for (size_t i = 0; i < kRows && whole < dots.count; ++i) {
      AddRest(rows + i * step, states + b * step, whole, dots.count, &sums[i]);
    }
    NarrowNumbers(sums, kRows, dots.out.out, dots.out.At(dots.first_state + state + b, dots.first_row + row));
  }
}

// As many independent sums as there are registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr size_t kDotStates = 4;
#else
constexpr size_t kDotStates = 2;
#endif

__attribute__((noinline)) void Dot(const Dots& dots) {
  size_t state = 0;
  const size_t rows = dots.num_rows;
  for (; state + kDotStates <= dots.num_states; state += kDotStates) {
    size_t row = 0;
    for (; row + 4 <= rows; row += 4) DotTile<4, kDotStates>(dots, row, state);
    for (; row < rows; ++row) {
      for (size_t b = 0; b < kDotStates; ++b) DotTile<1, 1>(dots, row, state + b);
    }
  }
  for (; state < dots.num_states; ++state) {
    size_t row = 0;
    for (; row + 4 <= rows; row += 4) DotTile<4, 1>(dots, row, state);
    for (; row < rows; ++row) DotTile<1, 1>(dots, row, state);
  }
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_DOT_H_
