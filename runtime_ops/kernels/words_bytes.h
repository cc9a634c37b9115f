// The functions of words.h, by bytes. A permutation of NEON and of WebAssembly has sixteen bytes. A table of
// sixteen floats is therefore four tables of bytes, and four lookups return the numbers of sixteen rows.
#ifndef EDGE_EMBED_KERNELS_WORDS_BYTES_H_
#define EDGE_EMBED_KERNELS_WORDS_BYTES_H_

#include "kernels/simd.h"

namespace edge_embed {
namespace {

// A transpose handles a square: this number of rows, and as many words of each row.
constexpr size_t kTurnedRows = 16;
constexpr size_t kTurnedWords = 4;

typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
typedef uint16_t Shorts __attribute__((vector_size(kVectorBytes)));
typedef uint8_t UnalignedBytes __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));

struct TurnedWord {
  Bytes bytes[4];  // bytes[i][row]
};
typedef Bytes TurnedNibble;  // [row]
struct TurnedFloats {
  Floats parts[4];  // rows 0 .. 3, 4 .. 7 and so on
};

// Keeps sums and lookups in source order. Compilers would otherwise load many tables first, for which there
// are too few registers.
__attribute__((always_inline)) inline TurnedFloats operator+(TurnedFloats a, const TurnedFloats& b) {
  EDGE_EMBED_UNROLL
  for (size_t i = 0; i < 4; ++i) a.parts[i] += b.parts[i];
#if defined(__aarch64__)
  __asm__ volatile("" : "+w"(a.parts[0]), "+w"(a.parts[1]), "+w"(a.parts[2]), "+w"(a.parts[3]));
#endif
  return a;
}
inline Floats Part(const TurnedFloats& numbers, size_t part) { return numbers.parts[part]; }
inline void SetRow(float number, size_t row, TurnedFloats* numbers) {
  numbers->parts[row / kLanes][row % kLanes] = number;
}

__attribute__((always_inline)) inline Bytes LoadBytes(const void* from) {
  return *static_cast<const UnalignedBytes*>(from);
}

// The first and the last halves of two vectors, with their elements in turns.
__attribute__((always_inline)) inline Bytes LowBytes(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
__attribute__((always_inline)) inline Bytes HighBytes(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
__attribute__((always_inline)) inline Floats LowShorts(Bytes a, Bytes b) {
  return (Floats)__builtin_shufflevector((Shorts)a, (Shorts)b, 0, 8, 1, 9, 2, 10, 3, 11);
}
__attribute__((always_inline)) inline Floats HighShorts(Bytes a, Bytes b) {
  return (Floats)__builtin_shufflevector((Shorts)a, (Shorts)b, 4, 12, 5, 13, 6, 14, 7, 15);
}

// table[index[i]] for every i
__attribute__((always_inline)) inline Bytes Permute(Bytes table, Bytes index) {
#if defined(__aarch64__)
  return (Bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)index);
#else
  typedef signed char Signed __attribute__((vector_size(kVectorBytes)));
  return (Bytes)__builtin_wasm_swizzle_i8x16((Signed)table, (Signed)index);
#endif
}

// Sixteen floats as tables for LookUp16: the lowest bytes of all, then the next bytes, and so on; and the
// inverse.
inline void MakeTables16(float* tables, size_t floats) {
  for (float* table = tables; table < tables + floats; table += 16) {
    unsigned char bytes[4][16];
    EDGE_EMBED_ROLL
    for (size_t k = 0; k < 64; ++k) bytes[k % 4][k / 4] = reinterpret_cast<unsigned char*>(table)[k];
    __builtin_memcpy(table, bytes, sizeof(bytes));
  }
}
inline void MakeFloats16(float* tables, size_t floats) {
  for (float* table = tables; table < tables + floats; table += 16) {
    unsigned char bytes[64];
    EDGE_EMBED_ROLL
    for (size_t k = 0; k < 64; ++k) bytes[k] = reinterpret_cast<unsigned char*>(table)[k % 4 * 16 + k / 4];
    __builtin_memcpy(table, bytes, sizeof(bytes));
  }
}

// Element `index` of a table, for every row.
__attribute__((always_inline)) inline TurnedFloats LookUp16(const float* table, TurnedNibble index) {
#if defined(__aarch64__)
  __asm__ volatile("" : "+r"(table), "+w"(index));
#endif
  const auto bytes = [&](size_t i) __attribute__((always_inline)) {
    return Permute(LoadBytes(table + i * kLanes), index);
  };
  const Bytes byte0 = bytes(0), byte1 = bytes(1), byte2 = bytes(2), byte3 = bytes(3);
  const Bytes low01 = LowBytes(byte0, byte1), high01 = HighBytes(byte0, byte1);
  const Bytes low23 = LowBytes(byte2, byte3), high23 = HighBytes(byte2, byte3);
  return {{LowShorts(low01, low23), HighShorts(low01, low23), LowShorts(high01, high23),
           HighShorts(high01, high23)}};
}

// The eight nibbles of every word, the lowest first.
__attribute__((always_inline)) inline void Nibbles(const TurnedWord& word, TurnedNibble (&nibbles)[8]) {
  for (size_t i = 0; i < 4; ++i) {
    nibbles[2 * i] = word.bytes[i] & 15;
    nibbles[2 * i + 1] = word.bytes[i] >> 4;
  }
}

// Interleaving the vectors i and i + 8 rotates the bits of a byte's number, row * 16 + column, by one.
__attribute__((always_inline)) inline void Interleave(const Bytes (&from)[kTurnedRows],
                                                      Bytes (&to)[kTurnedRows]) {
  EDGE_EMBED_ROLL
  for (size_t i = 0; i < kTurnedRows / 2; ++i) {
    to[2 * i] = LowBytes(from[i], from[i + kTurnedRows / 2]);
    to[2 * i + 1] = HighBytes(from[i], from[i + kTurnedRows / 2]);
  }
}

// turned[i][row] = byte i of a row, for rows that are `step` bytes apart. Four rounds exchange row and
// column.
__attribute__((always_inline)) inline void TurnBytes(const unsigned char* rows, size_t step,
                                                     Bytes (&turned)[kTurnedRows]) {
  EDGE_EMBED_ROLL
  for (size_t i = 0; i < kTurnedRows; ++i) turned[i] = LoadBytes(rows + i * step);
  Bytes next[kTurnedRows];
  EDGE_EMBED_ROLL
  for (size_t twice = 0; twice < 2; ++twice) {
    Interleave(turned, next);
    Interleave(next, turned);
  }
}

// words[k].bytes[i][row] = byte 4k + i of a row
__attribute__((always_inline)) inline void TurnWords(const unsigned char* rows, size_t step,
                                                     TurnedWord (&words)[kTurnedWords]) {
  Bytes turned[kTurnedRows];
  TurnBytes(rows, step, turned);
  for (size_t i = 0; i < kTurnedRows; ++i) words[i / 4].bytes[i % 4] = turned[i];
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_WORDS_BYTES_H_
