// Words of several rows as vectors, and tables that are looked up with them: where an instruction set has the
// instructions for it.
#ifndef EDGE_EMBED_KERNELS_WORDS_H_
#define EDGE_EMBED_KERNELS_WORDS_H_

#include "kernels/simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace edge_embed {
namespace {

#if defined(__AVX2__)
constexpr bool kTurnsWords = true;
#else
constexpr bool kTurnsWords = false;
#endif

constexpr size_t kTurnedWords = 8;
#if defined(__AVX2__)

typedef uint32_t EightWords __attribute__((vector_size(32)));
typedef uint32_t UnalignedEightWords __attribute__((vector_size(32), aligned(1), may_alias));

// In every quarter or half of a register, four words: the first or last two of a and b by turns, those in
// pairs, and whole quarters of a and b by turns.
#if defined(__AVX512F__)
inline Words LowWords(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline Words HighWords(Words a, Words b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline Words LowPairs(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
inline Words HighPairs(Words a, Words b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
inline Words EvenFours(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
}
inline Words OddFours(Words a, Words b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
}

// Row i of the first eight beside row i of the second eight.
inline Words LoadRow(const unsigned char* rows, size_t step, size_t i) {
  const EightWords low = *reinterpret_cast<const UnalignedEightWords*>(rows + i * step);
  const EightWords high = *reinterpret_cast<const UnalignedEightWords*>(rows + (i + 8) * step);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Float number `index % 16` of a table, for every lane.
inline Floats LookUp16(const unsigned char* table, Words index) {
  return (Floats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)LoadFloats(table));
}
#else
inline Words LowWords(Words a, Words b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
inline Words HighWords(Words a, Words b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
inline Words LowPairs(Words a, Words b) { return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13); }
inline Words HighPairs(Words a, Words b) { return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15); }
inline Words EvenFours(Words a, Words b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11); }
inline Words OddFours(Words a, Words b) { return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15); }

inline Words LoadRow(const unsigned char* rows, size_t step, size_t i) {
  return *reinterpret_cast<const UnalignedEightWords*>(rows + i * step);
}

// A permutation has three bits of the index; the fourth one chooses between two.
inline Floats LookUp16(const unsigned char* table, Words index) {
  const __m256 low = _mm256_permutevar8x32_ps((__m256)LoadFloats(table), (__m256i)index);
  const __m256 high = _mm256_permutevar8x32_ps((__m256)LoadFloats(table + kVectorBytes), (__m256i)index);
  return (Floats)_mm256_blendv_ps(low, high, (__m256)(index << 28));
}
#endif

// words[k][i] = word k of row i, for kLanes rows of eight words, `step` bytes from each other.
inline void TurnWords(const unsigned char* rows, size_t step, Words (&words)[kTurnedWords]) {
  Words twos[8], fours[8];
  for (size_t i = 0; i < 8; i += 2) {
    const Words row = LoadRow(rows, step, i), next = LoadRow(rows, step, i + 1);
    twos[i] = LowWords(row, next);
    twos[i + 1] = HighWords(row, next);
  }
  for (size_t i = 0; i < 8; i += 4) {
    fours[i] = LowPairs(twos[i], twos[i + 2]);
    fours[i + 1] = HighPairs(twos[i], twos[i + 2]);
    fours[i + 2] = LowPairs(twos[i + 1], twos[i + 3]);
    fours[i + 3] = HighPairs(twos[i + 1], twos[i + 3]);
  }
  for (size_t k = 0; k < 4; ++k) {
    words[k] = EvenFours(fours[k], fours[k + 4]);
    words[k + 4] = OddFours(fours[k], fours[k + 4]);
  }
}

#endif

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_WORDS_H_
