// Bytes of several rows as vectors, and lookups of bytes in tables of sixteen, for instruction sets with such
// an instruction.
#ifndef EDGE_EMBED_KERNELS_BYTES_H_
#define EDGE_EMBED_KERNELS_BYTES_H_

#include "kernels/words.h"

namespace edge_embed {
namespace {

#if (defined(__AVX2__) && !defined(__AVX512F__)) || defined(__aarch64__)

// A transpose handles a square of rows and bytes: as many rows as a register has bytes, and as many bytes of
// each row.
constexpr size_t kColumnRows = kVectorBytes;
constexpr size_t kColumns = 16;

#if defined(__AVX2__)

typedef uint16_t Shorts __attribute__((vector_size(kVectorBytes)));
typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));

// Interleaves sixteen bytes of a and b in every half of a register: the first or the last eight bytes.
inline Bytes LowBytes(Bytes a, Bytes b) { return (Bytes)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
inline Bytes HighBytes(Bytes a, Bytes b) { return (Bytes)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b); }

// Sixteen bytes of row i and of row i + 16.
inline Bytes LoadColumns(const unsigned char* rows, size_t step, size_t i) {
  const auto half = [=](size_t row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(rows + row * step));
  };
  return (Bytes)_mm256_inserti128_si256(_mm256_castsi128_si256(half(i)), half(i + 16), 1);
}

// Element index % 16 of a table of bytes, for every index below 128.
inline Bytes LookUpBytes(const unsigned char* table, Bytes index) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(table));
  return (Bytes)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), (__m256i)index);
}

// Transposes kColumnRows rows that are `step` bytes apart: columns[b][i] = byte b of row i. Four rounds
// interleave the first and the second halves.
__attribute__((noinline)) inline void TurnBytes(const unsigned char* rows, size_t step,
                                                Bytes (&columns)[kColumns]) {
  Bytes before[kColumns];
  for (size_t i = 0; i < kColumns; ++i) before[i] = LoadColumns(rows, step, i);
  for (size_t times = 0; times < 4; ++times) {
    for (size_t i = 0; i < kColumns; i += 2) {
      columns[i] = LowBytes(before[i / 2], before[i / 2 + 8]);
      columns[i + 1] = HighBytes(before[i / 2], before[i / 2 + 8]);
    }
    for (size_t i = 0; i < kColumns; ++i) before[i] = columns[i];
  }
}

#else

inline Bytes LookUpBytes(const unsigned char* table, Bytes index) { return Permute(LoadBytes(table), index); }

#endif
#endif

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_BYTES_H_
