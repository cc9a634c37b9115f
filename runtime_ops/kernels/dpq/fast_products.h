// Logits by a table of products, for a few hidden states at a time:
//
//   product[j][k][b]  = sum over c of hidden[b, j*s + c] * values[j, k, c]
//   logits[b, i]      = sum over j of product[j][code_j(i)][b]
//
// A row then needs one addition for each group, instead of one multiplication for each column.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_

#include "kernels/dpq/fast_codes.h"
#include "kernels/dpq/fast_sum.h"
#include "kernels/dpq/fast_values.h"
#include "kernels/words.h"

namespace edge_embed::dpq {
namespace {

// One number for each of several states. There are at most eight, so that the table fits the first-level
// cache. A single state uses floats.
constexpr size_t kStates = kSideBySide * kLanes < 8 ? kSideBySide * kLanes : 8;
typedef float States __attribute__((vector_size(kStates * sizeof(float))));
// A single state is a vector of one float: compilers would pack plain floats into vectors, which costs more
// than it saves.
typedef float OneState __attribute__((vector_size(sizeof(float))));

// A larger table costs more than the multiplications that it saves.
constexpr uint64_t kMostTableBytes = 512 * 1024;

// Nibbles of a row. With codes of one or two bits, a nibble has those of several groups, and a table the sums
// of their products; not where a small file matters most.
constexpr int kNibbleBits = 4;
inline bool HasNibbles(const Table& table) {
#if defined(__wasm__)
  return kTurnsWords && table.bits == kNibbleBits;
#else
  return kTurnsWords && (table.bits == 1 || table.bits == 2 || table.bits == kNibbleBits);
#endif
}
inline uint64_t NumNibbles(const Table& table) {
  const uint64_t in_one = static_cast<uint64_t>(kNibbleBits / table.bits);
  return (static_cast<uint64_t>(table.num_groups) + in_one - 1) / in_one;
}

// The table is complete, so that reading it needs no special cases. It has zeros for missing groups, up to a
// multiple of eight, and repeats the products of the last code for codes above it.
inline Size Products(const Table& table) {
  const bool of_nibbles = HasNibbles(table);
  const uint64_t groups = of_nibbles ? NumNibbles(table) : static_cast<uint64_t>(table.num_groups);
  return Size((groups + kCodesAtOnce - 1) / kCodesAtOnce) * kCodesAtOnce *
         (uint64_t{1} << (of_nibbles ? kNibbleBits : table.bits));
}

// The values of one group as floats, for other types of values.
inline Size WideCodebook(const Table& table) {
  return Size(static_cast<uint64_t>(table.num_codes)) * static_cast<uint64_t>(table.group_width);
}

template <class Vector>
bool TableFits(const Table& table) {
  return Max(Products(table) * sizeof(Vector), WideCodebook(table) * sizeof(float)).saturated() <=
         kMostTableBytes;
}

// True if there are enough rows for a table of products.
template <class Vector>
bool TablePays(const Table& table) {
  return TableFits<Vector>(table) && table.num_embeddings >> table.bits >= 4;
}

// The prepared data of a call, in floats. It has a table for every state, or for kStates at a time. It also
// has the logit of a padding row, which is 0 times the state, and scratch for making the tables.
struct Parts {
  Parts(const Table& table, size_t batch)
      : of_table(static_cast<size_t>(Products(table).saturated())),
        padding(of_table * (batch + kStates)),
        hidden(padding + batch),
        codebook(hidden + kStates * static_cast<size_t>(table.num_groups * table.group_width)) {}

  size_t of_table;
  size_t padding;   // [batch]
  size_t hidden;    // [d, kStates]
  size_t codebook;  // [K, s]
};

inline Size PartsDoubles(const Table& table, size_t batch) {
  const Size columns = static_cast<uint64_t>(table.num_groups * table.group_width);
  const Size floats = Products(table) * (batch + kStates) + columns * kStates + batch + WideCodebook(table);
  return floats.fits() ? Size(floats.saturated() / 2 + 1) + kAlignment : floats;
}

// Transposes hidden states [count, d], so that the state is the last axis. Missing states are zeros.
template <class Vector>
void TurnHidden(const float* hidden, size_t columns, size_t count, float* turned) {
  constexpr size_t kWide = sizeof(Vector) / sizeof(float);
  for (size_t b = 0; b < kWide; ++b) {
    for (size_t c = 0; c < columns; ++c) {
      turned[c * kWide + b] = b < count ? Load<float>(hidden, b * columns + c) : 0.0F;
    }
  }
}

// Products [groups up to a multiple of eight, 2^bits] of `count` states, as Vectors.
template <class Vector>
__attribute__((noinline)) void MakeProducts(const Table& table, const Layout& layout, const float* states,
                                            size_t count, const Parts& parts, float* memory,
                                            float* products) {
  const size_t width = layout.width, known = layout.last_code + 1, codes = layout.mask + 1;
  TurnHidden<Vector>(states, layout.groups * width, count, memory + parts.hidden);
  const auto* hidden = reinterpret_cast<const unsigned char*>(memory + parts.hidden);
  auto* out = reinterpret_cast<unsigned char*>(products);
  for (size_t group = 0; group < layout.groups; ++group, hidden += width * sizeof(Vector)) {
    const unsigned char* values =
        FloatCodebook(table, layout, group, reinterpret_cast<unsigned char*>(memory + parts.codebook));
    for (size_t code = 0; code < codes; ++code, out += sizeof(Vector)) {
      if (code >= known) {
        CopyPiece<sizeof(Vector)>(out - sizeof(Vector), out);
        continue;
      }
      const Vector product = AddUp<Vector>(width, [&](size_t c) __attribute__((always_inline)) {
        return Load<Vector>(hidden, c) * Load<float>(values, c);
      });
      Store(product, out, 0);
      values += width * sizeof(float);
    }
  }
  const size_t missing = (kCodesAtOnce - layout.groups % kCodesAtOnce) % kCodesAtOnce;
  __builtin_memset(out, 0, missing * codes * sizeof(Vector));
}

// Not simply zero: a state may contain NaN or infinity.
__attribute__((noinline)) inline void MakePadding(const float* hidden, size_t columns, size_t batch,
                                                  float* padding) {
  for (size_t b = 0; b < batch; ++b) {
    float sum = 0;
    for (size_t c = 0; c < columns; ++c) sum += Load<float>(hidden, b * columns + c) * 0.0F;
    padding[b] = sum;
  }
}

// Copies the codes of a row to a padded buffer, for the last rows of a table, where reading further would
// leave it.
__attribute__((noinline)) inline const unsigned char* PadRow(const Layout& layout, const unsigned char* row,
                                                             unsigned char* buffer) {
  CopyRest(row, layout.row_bytes, buffer);
  __builtin_memset(buffer + layout.row_bytes, 0, kCodePadding);
  return buffer;
}

// The sum of the products of a row so far: that of the last eight groups and that of the eight before take
// turns.
template <class Vector>
struct RowSum {
  Vector sum{}, other{};

  Vector Total() const { return sum + other; }
};

// Adds the products of some groups of one row, for each state.
template <class Vector, class Reader>
__attribute__((always_inline)) inline void AddProducts(const Reader& reader, const unsigned char* codes,
                                                       size_t eights, const unsigned char* products,
                                                       size_t codebook, RowSum<Vector>* row) {
  Vector sum = row->sum, other = row->other;
  for (; eights > 0; --eights, codes += reader.bits()) {
    Vector terms[kCodesAtOnce];
    reader.template Eight<false>(codes, [&](size_t k, size_t code) __attribute__((always_inline)) {
      terms[k] = Load<Vector>(products, code);
      products += codebook;
      if constexpr (!Reader::kFixed) InOrder(&products);
    });
    const auto term = [&](size_t k) __attribute__((always_inline)) { return terms[k]; };
    const Vector next = other + Tree<Vector, kCodesAtOnce>(term, 0);
    other = sum;
    sum = next;
  }
  row->sum = sum, row->other = other;
}

// Reads codes of one byte, whose number of bits is known to the compiler.
class ByteReader {
 public:
  static constexpr bool kFixed = true;

  template <bool, class Use>
  __attribute__((always_inline)) void Eight(const unsigned char* codes, const Use& use) const {
    // Also where code is kept small: terms stay in registers.
    EDGE_EMBED_UNROLL
    for (size_t k = 0; k < kCodesAtOnce; ++k) use(k, size_t{codes[k]});
  }

  static constexpr size_t bits() { return 8; }
};

// Multiplies the rows begin .. end-1 with all states.
struct LogitsCall {
  LogitsInput input;
  size_t begin, end;
  LogitsOutput logits;
};

// Number of logits of a state that are written together.
constexpr size_t kRun = 16;

// Writes sums [row, wide] as the logits of the rows first .. first+rows-1 of some states.
__attribute__((noinline)) inline void WriteRuns(const LogitsOutput& logits, const float* sums, size_t wide,
                                                size_t first, size_t rows, size_t state, size_t count) {
  const size_t size = SizeOf(logits.out.type);
  for (size_t b = 0; b < count; ++b) {
    float run[kRun];
    Half halves[kRun];
    for (size_t i = 0; i < kRun; ++i) run[i] = sums[i * wide + b];
    const void* from = run;
    if (logits.out.type == EE_FLOAT16) {
      for (size_t i = 0; i < kRun; i += kLanes) StoreHalves(LoadFloats(run + i), halves + i);
      from = halves;
    }
    CopyRest(static_cast<const unsigned char*>(from), rows * size,
             static_cast<unsigned char*>(logits.out.data) + logits.At(state + b, first) * size);
  }
}

// Doubles of the codes of a row, with padding for reading them.
inline Size PaddedRowDoubles(const Table& table) {
  return static_cast<uint64_t>(table.num_groups) / 4 + kCodePadding / sizeof(double) + 1;  // bits <= 16
}

// A table of products for codes of one byte is larger than the first-level cache. So many rows add the
// products of a few groups, then those of the next groups. Each row adds them in the same order as without
// blocks.
constexpr size_t kByteProducts = 256;
constexpr size_t kBlockEights = 3;  // their products take 24 KiB
constexpr size_t kRowsAtOnce = 256;

template <class Vector>
bool Blocks(const Layout& layout) {
  return sizeof(Vector) == sizeof(OneState) && layout.bits == 8 &&
         layout.groups > kBlockEights * kCodesAtOnce;
}

// Logits of kRowsAtOnce rows for one state; sixteen bytes follow the codes of the last one. The codes of the
// next rows are prefetched: the hardware does not see their order.
__attribute__((noinline)) inline void AddBlocks(const Layout& layout, const unsigned char* codes,
                                                const unsigned char* products, bool more, float* logits) {
  const size_t eights = (layout.groups + kCodesAtOnce - 1) / kCodesAtOnce;
  const size_t ahead = more ? kRowsAtOnce * layout.row_bytes : 0;
  RowSum<OneState> rows[kRowsAtOnce] = {};
  for (size_t begin = 0; begin < eights; begin += kBlockEights) {
    const unsigned char* row_codes = codes + begin * kCodesAtOnce;
    const unsigned char* block = products + begin * kCodesAtOnce * kByteProducts * sizeof(OneState);
    const size_t count = eights - begin < kBlockEights ? eights - begin : kBlockEights;
    for (size_t i = 0; i < kRowsAtOnce; ++i, row_codes += layout.row_bytes) {
      PrefetchAt(row_codes, ahead);
      if (count == kBlockEights) {
        AddProducts(ByteReader(), row_codes, kBlockEights, block, kByteProducts * sizeof(OneState), &rows[i]);
      } else {
        AddProducts(ByteReader(), row_codes, count, block, kByteProducts * sizeof(OneState), &rows[i]);
      }
    }
  }
  for (size_t i = 0; i < kRowsAtOnce; ++i)
    Store(rows[i].Total(), reinterpret_cast<unsigned char*>(logits), i);
}

// Logits of the states state .. state+count-1, at most as many as a Vector has.
template <class Vector>
void TableLogits(const Table& table, const Layout& layout, const LogitsCall& call, size_t state, size_t count,
                 const float* products, const float* of_padding, double* scratch) {
  constexpr size_t kWide = sizeof(Vector) / sizeof(float);
  // After the rows from here on, too few bytes follow.
  const size_t all = static_cast<size_t>(table.num_embeddings), last = kCodePadding / layout.row_bytes + 1;
  const size_t padded = all > last ? all - last : 0;

  const CodeReader reader(layout);
  const size_t eights = (layout.groups + kCodesAtOnce - 1) / kCodesAtOnce;
  const size_t codebook = (layout.mask + 1) * sizeof(Vector);
  const auto* const table_bytes = reinterpret_cast<const unsigned char*>(products);
  const auto write = [&](float* sums, size_t first, size_t rows) {
    const uint64_t padding =
        static_cast<uint64_t>(table.padding_idx) - first;  // very large without a padding row
    for (size_t b = 0; padding < rows && b < count; ++b) sums[padding * kWide + b] = of_padding[state + b];
    WriteRuns(call.logits, sums, kWide, first, rows, state, count);
  };
  size_t first = call.begin;
  for (const size_t end = call.end < padded ? call.end : padded;
       Blocks<Vector>(layout) && first + kRowsAtOnce <= end; first += kRowsAtOnce) {
    float sums[kRowsAtOnce];
    AddBlocks(layout, layout.codes + first * layout.row_bytes, table_bytes, first + 2 * kRowsAtOnce <= end,
              sums);
    for (size_t i = 0; i < kRowsAtOnce; i += kRun) write(sums + i, first + i, kRun);
  }
  float sums[kRun * kWide] = {};
  for (; first < call.end; first += kRun) {
    const size_t rows = call.end - first < kRun ? call.end - first : kRun;
    for (size_t i = 0; i < rows; ++i) {
      const unsigned char* codes = layout.codes + (first + i) * layout.row_bytes;
      if (first + i >= padded) codes = PadRow(layout, codes, reinterpret_cast<unsigned char*>(scratch));
      RowSum<Vector> row;
      AddProducts(reader, codes, eights, table_bytes, codebook, &row);
      Store(row.Total(), sums, i);
    }
    write(sums, first, rows);
  }
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_
