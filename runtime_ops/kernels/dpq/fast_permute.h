// Logits of tables with codes of four bits, for as many rows at once as a register has floats: the products
// of a group are sixteen floats, of which an instruction takes those of all rows.
//
//   logits[b, i] = sum over j of product[b][j][code_j(i)]                    product: see fast_products.h
//
// For that the words of the rows are turned, in registers: the word with groups 8k .. 8k+7 of every row
// becomes a vector. That is a seventh of the instructions, and saves a second copy of the codes in another
// order.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_

#include "kernels/dpq/fast_products.h"
#include "kernels/words.h"

namespace edge_embed::dpq {
namespace {

constexpr size_t kPermutedBits = 4;
// States whose products are used together: their tables are to fit the first cache.
constexpr size_t kPermutedStates = 4;

inline size_t OneTableDoubles(const Table& table) {
  return static_cast<size_t>(TableScratch<OneState>(table).saturated() / 2 + 1);
}

// Doubles.
inline Size PermuteScratch(const Table& table) {
  const bool used = kTurnsWords && table.bits == kPermutedBits && TableFits<OneState>(table);
  return used ? Size(OneTableDoubles(table)) * kPermutedStates : Size(0);
}

#if defined(__AVX2__)

// The words of a row that are turned at once.
constexpr size_t kPieceBytes = kTurnedWords * sizeof(uint32_t);

// Of kLanes rows, the last of which may be missing, as may bytes: zeros then.
inline void ReadWords(const unsigned char* from, size_t step, size_t rows, size_t bytes,
                      Words (&words)[kTurnedWords]) {
  if (rows == kLanes && bytes == kPieceBytes) return TurnWords(from, step, words);
  unsigned char padded[kLanes * kPieceBytes] = {};
  for (size_t i = 0; i < rows; ++i) CopyBytes(from + i * step, bytes, padded + i * kPieceBytes);
  TurnWords(padded, kPieceBytes, words);
}

// Products of the codes first .. first+rows-1 of a group, whose values are `values` [K, s]: eight columns at
// a time, of as many codes as a register has floats.
inline Floats CodeProducts(const unsigned char* values, size_t width, size_t rows,
                           const unsigned char* hidden) {
  Floats sum{};
  for (size_t c = 0; c < width; c += kTurnedWords) {
    const size_t some = width - c < kTurnedWords ? width - c : kTurnedWords;
    float factors[kTurnedWords] = {};
    CopyBytes(hidden + c * sizeof(float), some * sizeof(float), reinterpret_cast<unsigned char*>(factors));
    Words words[kTurnedWords];
    ReadWords(values + c * sizeof(float), width * sizeof(float), rows, some * sizeof(float), words);
    const auto term = [&](size_t k) __attribute__((always_inline)) { return (Floats)words[k] * factors[k]; };
    sum += Tree<Floats, kTurnedWords>(term, 0);
  }
  return sum;
}

// As MakeProducts, of one state.
__attribute__((noinline)) void MakePermuted(const Table& table, const Layout& layout,
                                            const unsigned char* hidden,
                                            const TableBuffers<OneState>& buffers) {
  constexpr size_t kCodes = size_t{1} << kPermutedBits;
  const size_t known = layout.last_code + 1, width = layout.width;
  unsigned char* out = buffers.products;
  for (size_t group = 0; group < layout.groups; ++group, hidden += width * sizeof(float)) {
    const unsigned char* values = layout.values + group * layout.book_step;
    if (table.value_type == EE_FLOAT16) {
      WidenToFloat(values, EE_FLOAT16, known * width, buffers.book);
      values = buffers.book;
    }
    float products[kCodes] = {};
    for (size_t code = 0; code < known; code += kLanes) {
      const size_t rows = known - code < kLanes ? known - code : kLanes;
      StoreFloats(CodeProducts(values + code * width * sizeof(float), width, rows, hidden), products + code);
    }
    for (size_t code = known; code < kCodes; ++code) products[code] = products[known - 1];
    __builtin_memcpy(out, products, sizeof(products));
    out += sizeof(products);
  }
  const size_t missing = (kCodesAtOnce - layout.groups % kCodesAtOnce) % kCodesAtOnce;
  __builtin_memset(out, 0, missing * kCodes * sizeof(float));
}

// Of `rows` rows, for each state. The eights are added as in AddProducts.
template <size_t kCount>
__attribute__((always_inline)) inline void AddPermuted(const Layout& layout, const unsigned char* codes,
                                                       size_t rows,
                                                       const unsigned char* const (&products)[kCount],
                                                       Floats (&sums)[kCount]) {
  constexpr size_t kGroupBytes = sizeof(float) << kPermutedBits;
  Floats others[kCount] = {};
  size_t table_at = 0;
  for (size_t at = 0; at < layout.row_bytes; at += kPieceBytes) {
    const size_t left = layout.row_bytes - at, bytes = left < kPieceBytes ? left : kPieceBytes;
    Words words[kTurnedWords];
    ReadWords(codes + at, layout.row_bytes, rows, bytes, words);
    for (size_t k = 0; k * sizeof(uint32_t) < bytes; ++k, table_at += kCodesAtOnce * kGroupBytes) {
      for (size_t s = 0; s < kCount; ++s) {
        const auto term = [&](size_t j) __attribute__((always_inline)) {
          return LookUp16(products[s] + table_at + j * kGroupBytes, words[k] >> (kPermutedBits * j));
        };
        const Floats next = others[s] + Tree<Floats, kCodesAtOnce>(term, 0);
        others[s] = sums[s];
        sums[s] = next;
      }
    }
  }
  for (size_t s = 0; s < kCount; ++s) sums[s] += others[s];
}

// Logits first .. first+rows-1 of one state.
inline void WriteLogits(const LogitsCall& call, Floats sums, size_t state, size_t first, size_t rows) {
  const size_t size = SizeOf(call.logits.type);
  unsigned char run[kVectorBytes];
  if (call.logits.type == EE_FLOAT16) {
    StoreHalves(sums, run);
  } else {
    StoreFloats(sums, run);
  }
  CopyBytes(run, rows * size,
            static_cast<unsigned char*>(call.logits.data) + (state * call.num_embeddings + first) * size);
}

template <size_t kCount>
__attribute__((noinline)) void PermuteStates(const Table& table, const Layout& layout, const LogitsCall& call,
                                             size_t state, double* scratch) {
  const size_t columns = layout.groups * layout.width;
  const unsigned char* products[kCount];
  float of_padding[kCount] = {};
  for (size_t s = 0; s < kCount; ++s) {
    const TableBuffers<OneState> buffers(table, layout, scratch + s * OneTableDoubles(table));
    const float* hidden = call.hidden + (state + s) * columns;
    MakePermuted(table, layout, reinterpret_cast<const unsigned char*>(hidden), buffers);
    products[s] = buffers.products;
    // Not simply zero: a state may hold what is not a number.
    for (size_t c = 0; c < columns; ++c) of_padding[s] += Load<float>(hidden, c) * 0.0F;
  }
  for (size_t first = call.begin; first < call.end; first += kLanes) {
    const size_t rows = call.end - first < kLanes ? call.end - first : kLanes;
    const uint64_t padding = static_cast<uint64_t>(table.padding_idx) - first;  // huge where there is none
    Floats sums[kCount] = {};
    AddPermuted<kCount>(layout, layout.codes + first * layout.row_bytes, rows, products, sums);
    for (size_t s = 0; s < kCount; ++s) {
      if (padding < rows) sums[s][padding] = of_padding[s];
      WriteLogits(call, sums[s], state + s, first, rows);
    }
  }
}

// All of it; false, and nothing is done, for other tables and for a few rows.
inline bool PermuteLogits(const Table& table, const Layout& layout, const LogitsCall& call, size_t batch,
                          double* scratch) {
  if (table.bits != kPermutedBits || !TablePays<OneState>(table, call)) return false;
  size_t state = 0;
  for (; state + kPermutedStates <= batch; state += kPermutedStates) {
    PermuteStates<kPermutedStates>(table, layout, call, state, scratch);
  }
  for (; state < batch; ++state) PermuteStates<1>(table, layout, call, state, scratch);
  return true;
}

#else

inline bool PermuteLogits(const Table&, const Layout&, const LogitsCall&, size_t, double*) { return false; }

#endif

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_PERMUTE_H_
