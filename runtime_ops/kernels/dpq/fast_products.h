// Logits by a table of products, for a few hidden states at a time:
//
//   product[j][k][b]  = sum over c of hidden[b, j*s + c] * values[j, k, c]
//   logits[b, i]      = sum over j of product[j][code_j(i)][b]
//
// A row then costs an addition for a group instead of a multiplication for a column.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_

#include "kernels/dpq/fast_codes.h"
#include "kernels/dpq/fast_sum.h"

namespace edge_embed::dpq {
namespace {

// A number of each of so many states. Not more than eight, for the table to fit the first cache; not more
// than a register, of course. One state alone has floats.
constexpr size_t kStates = kLanes < 8 ? kLanes : 8;
typedef float States __attribute__((vector_size(kStates * sizeof(float))));
// A vector too, if of one: compilers would pack floats into vectors, which costs more than it saves.
typedef float OneState __attribute__((vector_size(sizeof(float))));

// A larger table is slower than the multiplications that it saves.
constexpr uint64_t kMostTableBytes = 512 * 1024;

// The table has zeros for groups that a row has not, up to a multiple of eight, and the last code's products
// for codes that are none: reading it needs no exceptions.
inline Size Products(const Table& table) {
  const uint64_t groups = static_cast<uint64_t>(table.num_groups);
  return Size((groups + kCodesAtOnce - 1) / kCodesAtOnce) * kCodesAtOnce * (uint64_t{1} << table.bits);
}

// One group's values as floats, needed where they are halves.
inline Size WideBook(const Table& table) {
  return Size(static_cast<uint64_t>(table.num_codes)) * static_cast<uint64_t>(table.group_width);
}

template <class Vector>
bool TableFits(const Table& table) {
  return Max(Products(table) * sizeof(Vector), WideBook(table) * sizeof(float)).saturated() <=
         kMostTableBytes;
}

template <class Vector>
Size TableScratch(const Table& table) {
  const Size columns = static_cast<uint64_t>(table.num_groups * table.group_width);
  const Size row = static_cast<uint64_t>(table.num_groups) * 2 + kCodePadding + 8;  // bits <= 16
  if (!TableFits<Vector>(table)) return 0;
  return (Products(table) + columns) * (sizeof(Vector) / sizeof(float)) + WideBook(table) + row;
}

// Where the parts of the scratch are.
template <class Vector>
struct TableBuffers {
  TableBuffers(const Table& table, const Layout& layout, double* scratch)
      : products(reinterpret_cast<unsigned char*>(scratch)),
        hidden(products + Products(table).saturated() * sizeof(Vector)),
        book(hidden + layout.groups * layout.width * sizeof(Vector)),
        row(book + WideBook(table).saturated() * sizeof(float)) {}

  unsigned char* products;  // Vector [groups up to a multiple of eight, 2^bits]
  unsigned char* hidden;    // Vector [d]
  unsigned char* book;      // float [K, s]
  unsigned char* row;       // codes of one row, padded
};

// hidden[b, c] with b innermost and zeros where there are fewer states than `wide`.
__attribute__((noinline)) inline void TurnHidden(const float* hidden, size_t columns, size_t states,
                                                 size_t wide, unsigned char* turned) {
  for (size_t b = 0; b < wide; ++b) {
    for (size_t c = 0; c < columns; ++c) {
      Store(b < states ? Load<float>(hidden, b * columns + c) : 0.0F, turned, c * wide + b);
    }
  }
}

template <class Vector>
__attribute__((noinline)) inline void MakeProducts(const Table& table, const Layout& layout,
                                                   const TableBuffers<Vector>& buffers) {
  const size_t width = layout.width, known = layout.last_code + 1, codes = layout.mask + 1;
  unsigned char* out = buffers.products;
  for (size_t group = 0; group < layout.groups; ++group) {
    const unsigned char* values = layout.values + group * layout.book_step;
    if (table.value_type == EE_FLOAT16) {
      WidenToFloat(values, EE_FLOAT16, known * width, buffers.book);
      values = buffers.book;
    }
    const unsigned char* hidden = buffers.hidden + group * width * sizeof(Vector);
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

// The codes of a row in a buffer, for the last rows of a table, after which there is nothing to read.
__attribute__((noinline)) inline const unsigned char* PadRow(const Layout& layout, const unsigned char* row,
                                                             unsigned char* buffer) {
  CopyRest(row, layout.row_bytes, buffer);
  __builtin_memset(buffer + layout.row_bytes, 0, kCodePadding);
  return buffer;
}

// Of one row, for each state.
template <class Vector>
__attribute__((always_inline)) inline Vector AddProducts(const CodeReader& reader, const unsigned char* codes,
                                                         size_t eights, const unsigned char* products,
                                                         size_t book) {
  Vector sum{}, other{};
  for (; eights > 0; --eights, codes += reader.bits()) {
    Vector terms[kCodesAtOnce];
    reader.Eight<false>(codes, [&](size_t k, size_t code) __attribute__((always_inline)) {
      terms[k] = Load<Vector>(products, code);
      products += book;
      InOrder(&products);
    });
    const auto term = [&](size_t k) __attribute__((always_inline)) { return terms[k]; };
    const Vector next = other + Tree<Vector, kCodesAtOnce>(term, 0);
    other = sum;
    sum = next;
  }
  return sum + other;
}

// The rows begin .. end-1 times all states.
struct LogitsCall {
  const float* hidden;
  size_t begin, end;
  size_t num_embeddings;
  Output logits;
};

// Whether the products of a table are made sooner than so many rows are multiplied.
template <class Vector>
bool TablePays(const Table& table, const LogitsCall& call) {
  return TableFits<Vector>(table) && (call.end - call.begin) >> table.bits >= 4;
}

// Logits are written in runs of so many for each state.
constexpr size_t kRun = 16;

// sums [row, wide] as columns first .. first+rows-1 of the logits of some states.
__attribute__((noinline)) inline void WriteRuns(const LogitsCall& call, const float* sums, size_t wide,
                                                size_t first, size_t rows, size_t state, size_t count) {
  const size_t size = SizeOf(call.logits.type);
  for (size_t b = 0; b < count; ++b) {
    float run[kRun];
    Half halves[kRun];
    for (size_t i = 0; i < kRun; ++i) run[i] = sums[i * wide + b];
    const void* from = run;
    if (call.logits.type == EE_FLOAT16) {
      for (size_t i = 0; i < kRun; i += kLanes) StoreHalves(LoadFloats(run + i), halves + i);
      from = halves;
    }
    CopyRest(
        static_cast<const unsigned char*>(from), rows * size,
        static_cast<unsigned char*>(call.logits.data) + ((state + b) * call.num_embeddings + first) * size);
  }
}

// Logits of the states state .. state+count-1, not more than a Vector has.
template <class Vector>
void TableLogits(const Table& table, const Layout& layout, const LogitsCall& call, size_t state, size_t count,
                 double* scratch) {
  const TableBuffers<Vector> buffers(table, layout, scratch);
  const size_t columns = layout.groups * layout.width;
  constexpr size_t kWide = sizeof(Vector) / sizeof(float);
  // Rows from here on are followed by too few bytes.
  const size_t last = kCodePadding / layout.row_bytes + 1;
  const size_t padded = call.num_embeddings > last ? call.num_embeddings - last : 0;
  TurnHidden(call.hidden + state * columns, columns, count, kWide, buffers.hidden);
  MakeProducts(table, layout, buffers);

  const CodeReader reader(layout);
  const size_t eights = (layout.groups + kCodesAtOnce - 1) / kCodesAtOnce;
  const size_t book = (layout.mask + 1) * sizeof(Vector);
  float sums[kRun * kWide] = {};
  for (size_t first = call.begin; first < call.end; first += kRun) {
    const size_t rows = call.end - first < kRun ? call.end - first : kRun;
    for (size_t i = 0; i < rows; ++i) {
      const unsigned char* codes = layout.codes + (first + i) * layout.row_bytes;
      if (first + i >= padded) codes = PadRow(layout, codes, buffers.row);
      Store(AddProducts<Vector>(reader, codes, eights, buffers.products, book), sums, i);
    }
    const uint64_t padding = static_cast<uint64_t>(table.padding_idx) - first;  // huge where there is none
    if (padding < rows) {
      // Not simply zero: a state may hold what is not a number.
      Vector sum{};
      for (size_t c = 0; c < columns; ++c) sum += Load<Vector>(buffers.hidden, c) * 0.0F;
      Store(sum, sums, static_cast<size_t>(padding));
    }
    WriteRuns(call, sums, kWide, first, rows, state, count);
  }
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_PRODUCTS_H_
