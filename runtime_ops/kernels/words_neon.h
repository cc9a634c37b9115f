// The functions of words.h, by bytes. A permutation of NEON has sixteen bytes. A table of sixteen floats is
// therefore four tables of bytes, and four lookups return the numbers of sixteen rows.
#ifndef EDGE_EMBED_KERNELS_WORDS_NEON_H_
#define EDGE_EMBED_KERNELS_WORDS_NEON_H_

#include "kernels/simd.h"

namespace edge_embed {
namespace {

// A transpose handles a square: this number of rows, and as many words of each row.
constexpr size_t kTurnedRows = 16;
constexpr size_t kTurnedWords = 4;

typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
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
  for (size_t i = 0; i < 4; ++i) a.parts[i] += b.parts[i];
  __asm__ volatile("" : "+w"(a.parts[0]), "+w"(a.parts[1]), "+w"(a.parts[2]), "+w"(a.parts[3]));
  return a;
}
inline Floats Part(const TurnedFloats& numbers, size_t part) { return numbers.parts[part]; }
inline void SetRow(float number, size_t row, TurnedFloats* numbers) {
  numbers->parts[row / kLanes][row % kLanes] = number;
}

inline Bytes LoadBytes(const void* from) { return *static_cast<const UnalignedBytes*>(from); }

// Sixteen floats as tables for LookUp16: the lowest bytes of all, then the next bytes, and so on; and the
// inverse.
inline void MakeTables16(float* tables, size_t floats) {
  for (float* table = tables; table < tables + floats; table += 16) {
    const uint8x16x4_t bytes = vld4q_u8(reinterpret_cast<const uint8_t*>(table));
    for (size_t i = 0; i < 4; ++i) StoreFloats((Floats)bytes.val[i], table + i * kLanes);
  }
}
inline void MakeFloats16(float* tables, size_t floats) {
  for (float* table = tables; table < tables + floats; table += 16) {
    uint8x16x4_t bytes;
    for (size_t i = 0; i < 4; ++i) bytes.val[i] = (uint8x16_t)LoadFloats(table + i * kLanes);
    vst4q_u8(reinterpret_cast<uint8_t*>(table), bytes);
  }
}

// Element `index` of a table, for every row.
__attribute__((always_inline)) inline TurnedFloats LookUp16(const float* table, TurnedNibble index) {
  __asm__ volatile("" : "+r"(table), "+w"(index));
  const auto bytes = [&](size_t i) __attribute__((always_inline)) {
    return vqtbl1q_u8((uint8x16_t)LoadBytes(table + i * kLanes), (uint8x16_t)index);
  };
  const uint8x16_t byte0 = bytes(0), byte1 = bytes(1), byte2 = bytes(2), byte3 = bytes(3);
  const uint16x8_t lows[] = {(uint16x8_t)vzip1q_u8(byte0, byte1), (uint16x8_t)vzip2q_u8(byte0, byte1)};
  const uint16x8_t highs[] = {(uint16x8_t)vzip1q_u8(byte2, byte3), (uint16x8_t)vzip2q_u8(byte2, byte3)};
  return {{(Floats)vzip1q_u16(lows[0], highs[0]), (Floats)vzip2q_u16(lows[0], highs[0]),
           (Floats)vzip1q_u16(lows[1], highs[1]), (Floats)vzip2q_u16(lows[1], highs[1])}};
}

// The eight nibbles of every word, the lowest first.
__attribute__((always_inline)) inline void Nibbles(const TurnedWord& word, TurnedNibble (&nibbles)[8]) {
  for (size_t i = 0; i < 4; ++i) {
    nibbles[2 * i] = word.bytes[i] & 15;
    nibbles[2 * i + 1] = word.bytes[i] >> 4;
  }
}

// words[k].bytes[i][row] = byte 4k + i of a row, for rows that are `step` bytes apart. Interleaving the
// vectors i and i + 8 rotates the bits of a byte's number, row * 16 + column, by one. Four rounds exchange
// row and column.
__attribute__((always_inline)) inline void TurnWords(const unsigned char* rows, size_t step,
                                                     TurnedWord (&words)[kTurnedWords]) {
  Bytes turned[kTurnedRows];
  for (size_t i = 0; i < kTurnedRows; ++i) turned[i] = LoadBytes(rows + i * step);
  for (size_t round = 0; round < 4; ++round) {
    Bytes next[kTurnedRows];
    for (size_t i = 0; i < kTurnedRows / 2; ++i) {
      const uint8x16_t a = (uint8x16_t)turned[i], b = (uint8x16_t)turned[i + kTurnedRows / 2];
      next[2 * i] = (Bytes)vzip1q_u8(a, b);
      next[2 * i + 1] = (Bytes)vzip2q_u8(a, b);
    }
    for (size_t i = 0; i < kTurnedRows; ++i) turned[i] = next[i];
  }
  for (size_t i = 0; i < kTurnedRows; ++i) words[i / 4].bytes[i % 4] = turned[i];
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_WORDS_NEON_H_
