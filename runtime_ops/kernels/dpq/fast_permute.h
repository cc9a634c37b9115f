// Logits of tables with codes of one, two or four bits, for as many rows at once as a register has floats
// (NEON: sixteen). The products of a nibble are sixteen floats, and one or a few instructions look up those
// of all rows.
//
//   logits[b, i] = sum over j of product[b][j][nibble_j(i)]                  product: see fast_products.h
//
// Vectors are the words with groups 8k .. 8k+7 of these rows. They are read from the blocks of the table if
// it has blocks. Otherwise, the words of the rows are transposed in registers, which costs a fourth of the
// time.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_

#include "kernels/dpq/blocks.h"
#include "kernels/dpq/fast_products.h"
#include "kernels/words.h"

namespace edge_embed::dpq {
namespace {

// States whose products are used together: their tables must fit the first-level cache.
#if defined(__wasm__)
constexpr size_t kPermutedStates = 1;
#else
constexpr size_t kPermutedStates = 4;
#endif

inline bool Permutes(const Table& table) { return HasNibbles(table) && TablePays<OneState>(table); }

#if defined(__AVX2__) || defined(__aarch64__) || defined(__wasm_simd128__)

// Bytes of a row that are transposed at once.
constexpr size_t kPieceBytes = kTurnedWords * sizeof(uint32_t);

// Reads words of kTurnedRows rows, and fills missing rows and bytes with zeros.
__attribute__((noinline, cold)) void ReadSomeWords(const unsigned char* from, size_t step, size_t rows,
                                                   size_t bytes, TurnedWord (&words)[kTurnedWords]) {
  unsigned char padded[kTurnedRows * kPieceBytes] = {};
  for (size_t i = 0; i < rows; ++i) CopyBytes(from + i * step, bytes, padded + i * kPieceBytes);
  TurnWords(padded, kPieceBytes, words);
}

#if defined(__AVX2__)

// Products of the codes first .. first+rows-1 of a group with the values `values` [K, s]: eight columns at a
// time, for as many codes as a register has floats.
inline Floats CodeProducts(const unsigned char* values, size_t width, size_t rows,
                           const unsigned char* hidden) {
  Floats sum{};
  for (size_t c = 0; c < width; c += kTurnedWords) {
    const size_t some = width - c < kTurnedWords ? width - c : kTurnedWords;
    float factors[kTurnedWords] = {};
    CopyBytes(hidden + c * sizeof(float), some * sizeof(float), reinterpret_cast<unsigned char*>(factors));
    Words words[kTurnedWords];
    ReadSomeWords(values + c * sizeof(float), width * sizeof(float), rows, some * sizeof(float), words);
    const auto term = [&](size_t k) __attribute__((always_inline)) { return (Floats)words[k] * factors[k]; };
    sum += Tree<Floats, kTurnedWords>(term, 0);
  }
  return sum;
}

// The same as MakeProducts, for one state.
__attribute__((noinline)) void MakePermuted(const Table& table, const Layout& layout, const float* state,
                                            const Parts& parts, float* memory, float* products) {
  constexpr size_t kCodes = size_t{1} << kBlockedBits;
  const size_t known = layout.last_code + 1, width = layout.width;
  const auto* hidden = reinterpret_cast<const unsigned char*>(state);
  __builtin_memset(products, 0, parts.of_table * sizeof(float));
  for (size_t group = 0; group < layout.groups; ++group, hidden += width * sizeof(float)) {
    const unsigned char* values =
        FloatCodebook(table, layout, group, reinterpret_cast<unsigned char*>(memory + parts.codebook));
    float of_group[kCodes + kLanes];
    for (size_t code = 0; code < known; code += kLanes) {
      const size_t rows = known - code < kLanes ? known - code : kLanes;
      StoreFloats(CodeProducts(values + code * width * sizeof(float), width, rows, hidden), of_group + code);
    }
    // The codes of a nibble: several groups share its sixteen products.
    const size_t bit = group * layout.bits, shift = bit % kBlockedBits;
    float* const sums = products + bit / kBlockedBits * kCodes;
    for (size_t k = 0; k < kCodes; ++k) {
      const size_t code = k >> shift & layout.mask;
      sums[k] += of_group[code < known ? code : known - 1];
    }
  }
}

#else

#if defined(__aarch64__)
// The products of nibbles, from those of codes with fewer bits: the sums for each value of a nibble. The
// codes' products become the end of the table first. Each nibble reads eight of them and writes sixteen, so
// that it reaches only those that were read.
__attribute__((noinline)) inline void MakeNibbles(const Table& table, const Layout& layout,
                                                  const float* state, const Parts& parts, float* memory,
                                                  float* products) {
  constexpr size_t kRead = 8, kEntries = size_t{1} << kNibbleBits;
  const size_t groups = (layout.groups + kCodesAtOnce - 1) / kCodesAtOnce * kCodesAtOnce;
  const float* from = products + parts.of_table - (groups << layout.bits);
  MakeProducts<OneState>(table, layout, state, 1, parts, memory, products + (from - products));
  const size_t nibbles = static_cast<size_t>(NumNibbles(table));
  for (size_t nibble = 0; nibble < nibbles; ++nibble, from += kRead, products += kEntries) {
    float read[kRead];
    __builtin_memcpy(read, from, sizeof(read));
    for (size_t k = 0; k < kEntries; ++k) {
      products[k] = layout.bits == 2 ? read[k & 3] + read[4 + (k >> 2)]
                                     : (read[k & 1] + read[2 + (k >> 1 & 1)]) +
                                           (read[4 + (k >> 2 & 1)] + read[6 + (k >> 3)]);
    }
  }
  const size_t written = nibbles * kEntries;
  __builtin_memset(products, 0, (parts.of_table - written) * sizeof(float));
}
#endif

// The same for lookups of bytes. It runs once for all rows, so products are computed one by one.
inline void MakePermuted(const Table& table, const Layout& layout, const float* state, const Parts& parts,
                         float* memory, float* products) {
#if defined(__aarch64__)
  if (layout.bits < kBlockedBits) {
    MakeNibbles(table, layout, state, parts, memory, products);
    return MakeTables16(products, parts.of_table);
  }
#endif
  MakeProducts<OneState>(table, layout, state, 1, parts, memory, products);
  MakeTables16(products, parts.of_table);
}

#endif

#if defined(__wasm__)

// Sums the products of `rows` rows for one state, in the order of AddProducts, by loops that are small in a
// file.
template <size_t kCount>
__attribute__((always_inline)) inline void AddPermuted(const Layout& layout, size_t first, size_t rows,
                                                       const float* const (&products)[kCount],
                                                       TurnedFloats (&sums)[kCount]) {
  static_assert(kCount == 1);
  const unsigned char* const codes = layout.codes + first * layout.row_bytes;
  // Shorter rows are read with bytes of the next ones, whose products are zeros or are not used.
  const bool has_next = first + kTurnedRows + kPieceBytes / layout.row_bytes < layout.rows;
  const float* table = products[0];
  TurnedFloats others{};
  for (size_t at = 0; at < layout.row_bytes; at += kPieceBytes) {
    const size_t left = layout.row_bytes - at, bytes = left < kPieceBytes ? left : kPieceBytes;
    const unsigned char* from = codes + at;
    size_t step = layout.row_bytes;
    unsigned char padded[kTurnedRows * kPieceBytes];
    if (!has_next) {
      __builtin_memset(padded, 0, sizeof(padded));
      for (size_t i = 0; i < rows; ++i) CopyRest(from + i * step, bytes, padded + i * kPieceBytes);
      from = padded, step = kPieceBytes;
    }
    Bytes turned[kTurnedRows];
    TurnBytes(from, step, turned);
    for (size_t word = 0; word < bytes; word += kWordBytes) {
      TurnedFloats tree{};
      EDGE_EMBED_ROLL
      for (size_t half = 0; half < kWordBytes; half += 2, table += 4 << kBlockedBits) {
        const auto pair = [&](size_t i) __attribute__((always_inline)) {
          const TurnedNibble byte = turned[word + half + i];
          const float* const low = table + (2 * i << kBlockedBits);
          return LookUp16(low, byte & 15) + LookUp16(low + (1 << kBlockedBits), byte >> 4);
        };
        tree = tree + (pair(0) + pair(1));
      }
      const TurnedFloats next = others + tree;
      others = sums[0];
      sums[0] = next;
    }
  }
  sums[0] = sums[0] + others;
}

#else

// Adds the products of the eight groups of a word, in the order of AddProducts.
template <size_t kCount>
__attribute__((always_inline)) inline void AddWord(const TurnedWord& word,
                                                   const float* const (&products)[kCount], size_t table_at,
                                                   TurnedFloats (&sums)[kCount],
                                                   TurnedFloats (&others)[kCount]) {
  TurnedNibble nibbles[kCodesAtOnce];
  Nibbles(word, nibbles);
  for (size_t s = 0; s < kCount; ++s) {
    const auto term = [&](size_t j) __attribute__((always_inline)) {
      return LookUp16(products[s] + table_at + (j << kBlockedBits), nibbles[j]);
    };
    const TurnedFloats next = others[s] + Tree<TurnedFloats, kCodesAtOnce>(term, 0);
    others[s] = sums[s];
    sums[s] = next;
  }
}

// Prefetches bytes that are read soon. The hardware prefetcher stops at the end of a page, and the codes are
// too large for a cache.
__attribute__((always_inline)) inline void PrefetchAhead(const unsigned char* from, size_t bytes) {
  constexpr size_t kAhead = 4096, kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) PrefetchAt(from, kAhead + at);
}

// Calls add(word) for the words of the rows from `first` on, beginning with the word of the groups 0 .. 7.
template <bool kUnrolled, class Add>
__attribute__((always_inline)) inline void ForWords(const Layout& layout, size_t first, size_t rows,
                                                    const Add& add) {
#if defined(__AVX512F__)
  static_assert(kTurnedRows == kBlockedRows, "a block is a vector for each word");
  if (layout.blocks != nullptr && layout.bits == kBlockedBits && first % kBlockedRows == 0) {
    const size_t words = (layout.row_bytes + kWordBytes - 1) / kWordBytes;
    const unsigned char* word = layout.blocks + first * words * kWordBytes;
#pragma GCC unroll 1
    for (size_t k = 0; k < words; ++k, word += kVectorBytes) {
      PrefetchAhead(word, kVectorBytes);
      add((Words)LoadFloats(word));
    }
    return;
  }
#endif
  const unsigned char* const codes = layout.codes + first * layout.row_bytes;
  PrefetchAhead(codes, kTurnedRows * layout.row_bytes);
  for (size_t at = 0; at < layout.row_bytes; at += kPieceBytes) {
    const size_t left = layout.row_bytes - at;
    TurnedWord words[kTurnedWords];
    // Shorter rows are read with bytes of the next ones, whose products are zeros or are not used.
    const bool has_next = first + kTurnedRows + kPieceBytes / layout.row_bytes < layout.rows;
    if (rows == kTurnedRows && (left >= kPieceBytes || has_next)) {
      TurnWords(codes + at, layout.row_bytes, words);
      if (kUnrolled && left >= kPieceBytes) {  // words stay in registers
#pragma GCC unroll 8
        for (size_t k = 0; k < kTurnedWords; ++k) add(words[k]);
        continue;
      }
    } else {
      ReadSomeWords(codes + at, layout.row_bytes, rows, left < kPieceBytes ? left : kPieceBytes, words);
    }
    const size_t count = left < kPieceBytes ? (left + 3) / sizeof(uint32_t) : kTurnedWords;
#pragma GCC unroll 1
    for (size_t k = 0; k < count; ++k) add(words[k]);
  }
}

// Sums the products of `rows` rows, for each state.
template <size_t kCount>
__attribute__((always_inline)) inline void AddPermuted(const Layout& layout, size_t first, size_t rows,
                                                       const float* const (&products)[kCount],
                                                       TurnedFloats (&sums)[kCount]) {
  TurnedFloats others[kCount] = {};
  size_t table_at = 0;
  ForWords<kCount == 1>(layout, first, rows, [&](const TurnedWord& word) __attribute__((always_inline)) {
    AddWord<kCount>(word, products, table_at, sums, others);
    table_at += kCodesAtOnce << kBlockedBits;
  });
  for (size_t s = 0; s < kCount; ++s) sums[s] = sums[s] + others[s];
}

#endif

// Writes the logits first .. first+rows-1 of one state.
inline void WriteLogits(const LogitsOutput& logits, const TurnedFloats& sums, size_t state, size_t first,
                        size_t rows) {
#if defined(__wasm__)
  static_assert(sizeof(sums) == kRun * sizeof(float));
  if (rows == kRun && logits.out.type == EE_FLOAT32) {
    __builtin_memcpy(static_cast<float*>(logits.out.data) + logits.At(state, first), &sums, sizeof(sums));
  } else {
    WriteRuns(logits, reinterpret_cast<const float*>(&sums), 1, first, rows, state, 1);
  }
#else
  const size_t size = SizeOf(logits.out.type);
  unsigned char run[kTurnedRows * sizeof(float)];
  for (size_t row = 0; row < kTurnedRows; row += kLanes) {
    StoreAs(Part(sums, row / kLanes), logits.out.type, run + row * size);
  }
  CopyBytes(run, rows * size, static_cast<unsigned char*>(logits.out.data) + logits.At(state, first) * size);
#endif
}

template <size_t kCount>
__attribute__((noinline)) void PermuteStates(const Table& table, const Layout& layout, const LogitsCall& call,
                                             size_t state, const float* tables, size_t of_table,
                                             const float* of_padding) {
  const float* products[kCount];
  for (size_t s = 0; s < kCount; ++s) products[s] = tables + (state + s) * of_table;
  for (size_t first = call.begin; first < call.end; first += kTurnedRows) {
    const size_t rows = call.end - first < kTurnedRows ? call.end - first : kTurnedRows;
    const uint64_t padding =
        static_cast<uint64_t>(table.padding_idx) - first;  // very large without a padding row
    TurnedFloats sums[kCount] = {};
    AddPermuted<kCount>(layout, first, rows, products, sums);
    for (size_t s = 0; s < kCount; ++s) {
      if (padding < rows) SetRow(of_padding[state + s], padding, &sums[s]);
      WriteLogits(call.logits, sums[s], state + s, first, rows);
    }
  }
}

__attribute__((noinline)) inline void PreparePermuted(const Table& table, const float* hidden, size_t batch,
                                                      double* memory) {
  const Layout layout(table);
  const Parts parts(table, batch);
  float* const floats = AlignedFloats(memory);
  const size_t columns = layout.groups * layout.width;
  for (size_t b = 0; b < batch; ++b) {
    MakePermuted(table, layout, hidden + b * columns, parts, floats, floats + b * parts.of_table);
  }
  MakePadding(hidden, columns, batch, floats + parts.padding);
}

__attribute__((noinline)) inline void PermuteLogits(const Table& table, const LogitsCall& call) {
  const Layout layout(table);
  const size_t batch = call.input.batch;
  const Parts parts(table, batch);
  const float *tables = AlignedFloats(call.input.prepared), *of_padding = tables + parts.padding;
  size_t state = 0;
  for (; kPermutedStates > 1 && state + kPermutedStates <= batch; state += kPermutedStates) {
    PermuteStates<kPermutedStates>(table, layout, call, state, tables, parts.of_table, of_padding);
  }
  for (; state < batch; ++state) {
    PermuteStates<1>(table, layout, call, state, tables, parts.of_table, of_padding);
  }
}

#else

inline void PreparePermuted(const Table&, const float*, size_t, double*) {}
inline void PermuteLogits(const Table&, const LogitsCall&) {}

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_
