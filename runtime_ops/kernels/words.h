// Words of several rows as vectors, and lookups of words in tables, for instruction sets with such
// instructions. With AVX2 and AVX-512, these are permutations of floats.
#ifndef EDGE_EMBED_KERNELS_WORDS_H_
#define EDGE_EMBED_KERNELS_WORDS_H_

#include "kernels/simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__) || defined(__wasm_simd128__)
#include "kernels/words_bytes.h"
#endif

namespace edge_embed {
namespace {

#if defined(__AVX2__) || defined(__aarch64__) || defined(__wasm_simd128__)
constexpr bool kTurnsWords = true;
#else
constexpr bool kTurnsWords = false;
#endif

#if defined(__AVX2__)

// A transpose handles a square: this number of rows, and as many words of each row.
constexpr size_t kTurnedRows = kLanes;
constexpr size_t kTurnedWords = 8;

// A word, a nibble and a number of each of these rows.
typedef Words TurnedWord;
typedef Words TurnedNibble;
typedef Floats TurnedFloats;

// A table of sixteen floats, the argument of LookUp16.
inline void MakeTables16(float*, size_t) {}
inline void MakeFloats16(float*, size_t) {}

inline Floats Part(Floats numbers, size_t) { return numbers; }
inline void SetRow(float number, size_t row, Floats* numbers) { (*numbers)[row] = number; }

typedef uint32_t EightWords __attribute__((vector_size(32)));
typedef uint32_t UnalignedEightWords __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t Pairs __attribute__((vector_size(kVectorBytes)));

inline EightWords LoadEight(const unsigned char* from) {
  return *reinterpret_cast<const UnalignedEightWords*>(from);
}

// Interleaves words of a and b in every quarter or half of a register: the first or last two of four words,
// the same by pairs, and whole quarters.
#if defined(__AVX512F__)
inline Words LowWords(Words a, Words b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline Words HighWords(Words a, Words b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline Words LowPairs(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 0, 8, 2, 10, 4, 12, 6, 14);
}
inline Words HighPairs(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 1, 9, 3, 11, 5, 13, 7, 15);
}
inline Words EvenFours(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 0, 1, 4, 5, 8, 9, 12, 13);
}
inline Words OddFours(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 2, 3, 6, 7, 10, 11, 14, 15);
}

// The high sixteen bits of products of 16-bit numbers, in both halves of every word.
inline Words HighHalves(Words words, uint16_t factor) {
  return (Words)_mm512_mulhi_epu16((__m512i)words, _mm512_set1_epi16(static_cast<int16_t>(factor)));
}

constexpr size_t kQuarters = 4;  // words of the rows, four rows each

// low, high = words 0 .. 3 and 4 .. 7 of one row in each quarter
inline void LoadFours(const unsigned char* const (&rows)[kQuarters], Words* low, Words* high) {
  const auto two = [&](size_t k) {  // a shuffle of vectors would not be part of the load from memory
    const Words first = (Words)_mm512_castsi256_si512((__m256i)LoadEight(rows[k]));
    return (Words)_mm512_maskz_inserti64x4(0xFF, (__m512i)first, (__m256i)LoadEight(rows[k + 1]), 1);
  };
  const Words first = two(0), second = two(2);
  *low = EvenFours(first, second);
  *high = OddFours(first, second);
}

// Element `index % 16` of a table, for every lane.
inline Floats LookUp16(const float* table, Words index) {
  return (Floats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)LoadFloats(table));
}
#else
inline Words LowWords(Words a, Words b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
inline Words HighWords(Words a, Words b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
inline Words LowPairs(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 0, 4, 2, 6);
}
inline Words HighPairs(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 1, 5, 3, 7);
}
inline Words EvenFours(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 0, 1, 4, 5);
}
inline Words OddFours(Words a, Words b) {
  return (Words)__builtin_shufflevector((Pairs)a, (Pairs)b, 2, 3, 6, 7);
}

inline Words HighHalves(Words words, uint16_t factor) {
  return (Words)_mm256_mulhi_epu16((__m256i)words, _mm256_set1_epi16(static_cast<int16_t>(factor)));
}

constexpr size_t kQuarters = 2;

inline void LoadFours(const unsigned char* const (&rows)[kQuarters], Words* low, Words* high) {
  const Words first = LoadEight(rows[0]), second = LoadEight(rows[1]);
  *low = EvenFours(first, second);
  *high = OddFours(first, second);
}

// A permutation uses three bits of the index; the fourth bit selects between two results.
inline Floats LookUp16(const float* table, Words index) {
  const __m256 low = _mm256_permutevar8x32_ps((__m256)LoadFloats(table), (__m256i)index);
  const __m256 high = _mm256_permutevar8x32_ps((__m256)LoadFloats(table + kLanes), (__m256i)index);
  return (Floats)_mm256_blendv_ps(low, high, (__m256)(index << 28));
}
#endif

// The eight nibbles of every word, the lowest first; bits above the low four are undefined. Shifts use the
// same execution unit as permutations, while multiplications do not. The high half of a 16-bit product with a
// power of two is a shifted number.
inline void Nibbles(Words words, Words (&nibbles)[8]) {
  for (size_t half = 0; half < 8; half += 4) {
    nibbles[half] = words >> (4 * half);
    for (size_t j = 1; j < 4; ++j)
      nibbles[half + j] = HighHalves(nibbles[half], static_cast<uint16_t>(1U << (16 - 4 * j)));
  }
}

// words[k][i] = word k of row i, for kLanes rows of eight words that are `step` bytes apart.
__attribute__((always_inline)) inline void TurnWords(const unsigned char* rows, size_t step,
                                                     Words (&words)[kTurnedWords]) {
  Words fours[8];
  const unsigned char* from[kQuarters];
  for (size_t q = 0; q < kQuarters; ++q) from[q] = rows + 4 * q * step;
  for (size_t i = 0; i < 4; ++i) {
    LoadFours(from, &fours[i], &fours[i + 4]);
    for (size_t q = 0; q < kQuarters; ++q) {
      from[q] += step;
      InOrder(&from[q]);  // otherwise, the addresses of all rows would need more registers than there are
    }
  }
  for (size_t half = 0; half < 8; half += 4) {
    const Words low = LowWords(fours[half], fours[half + 1]), high = HighWords(fours[half], fours[half + 1]);
    const Words next_low = LowWords(fours[half + 2], fours[half + 3]);
    const Words next_high = HighWords(fours[half + 2], fours[half + 3]);
    words[half] = LowPairs(low, next_low);
    words[half + 1] = HighPairs(low, next_low);
    words[half + 2] = LowPairs(high, next_high);
    words[half + 3] = HighPairs(high, next_high);
  }
}

#endif

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_WORDS_H_
