// out[b, :] = sum | mean | max over i in [offsets[b], offsets[b+1]) of row(ids[i])
//
// A sum does not compute rows: the values of eight groups are added in registers over seven rows of a bag.
// Each number is rounded at most seven times, including the product with its weight. Sums of seven rows are
// added together with their rounding errors (Fold). The result is rounded once, or twice for a mean without
// weights. That is eight halves of a ULP of the sum of the absolute values, for any length of the bag.
//
// A maximum computes rows, four at a time. So do tables that do not fit registers: float16 and int8 values,
// widths that are not a multiple of four, and numbers of codes that are not a power of two.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_BAG_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_BAG_H_

#include "kernels/dpq/fast_gather.h"

namespace edge_embed::dpq {
namespace {

constexpr size_t kTerms = 7;
// Rows whose codes are copied together.
constexpr size_t kBagRows = 4 * kTerms;
constexpr size_t kMadeAtOnce = 4;

template <size_t kCount>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kCount * sizeof(float))));
};

// Some rows of a bag; `first` is true for the first rows.
struct BagBlock {
  size_t ids[kBagRows];
  float weights[kBagRows];
  size_t count;
  bool first;
};

// The results of the columns of a bag so far.
struct Totals {
  float* high;  // [d]
  float* low;   // [d], for sums: the rounding errors of `high`
};

// Adds a sum of some rows to that of the rows before, if there are any. The error of an addition is exactly a
// float (Knuth, TAOCP 2, 4.2.2, theorem B).
template <class Vector>
__attribute__((always_inline)) inline void Fold(Vector part, bool first, const Totals& totals, size_t at) {
  Vector sum = part, lost{};
  if (!first) {
    const Vector before = Load<Vector>(totals.high + at, 0);
    sum = before + part;
    const Vector taken = sum - before;
    lost = Load<Vector>(totals.low + at, 0) + ((before - (sum - taken)) + (part - taken));
  }
  Store(sum, totals.high + at, 0);
  Store(lost, totals.low + at, 0);
}

// The same for `count` parts that are `step` columns apart. Not inlined, because it runs once for several
// rows.
template <class Vector>
__attribute__((noinline)) void FoldParts(const Vector* parts, size_t count, bool first, const Totals& totals,
                                         size_t at, size_t step) {
  for (const Vector* end = parts + count; parts != end; ++parts, at += step) Fold(*parts, first, totals, at);
}

// Sums kVectors of columns of kGroups groups over all rows of a block. codes(i, use) calls use(k, code of
// group k) for row i. `values` are those of the first group and its code 0.
template <class Vector, size_t kVectors, size_t kGroups, class Codes>
__attribute__((always_inline)) inline void AddGroups(const Layout& layout, const BagBlock& block,
                                                     const unsigned char* values, const Codes& codes,
                                                     const Totals& totals, size_t at) {
  const size_t vector_bytes = layout.vector_bytes, codebook_step = layout.codebook_step;
  for (size_t first = 0; first < block.count; first += kTerms) {
    const size_t left = block.count - first, end = first + (left < kTerms ? left : kTerms);
    Vector parts[kVectors][kGroups] = {};
    for (size_t i = first; i < end; ++i) {
      const unsigned char* codebook = values;
      const Vector weight = block.weights[i] - Vector{};
      codes(i, [&](size_t k, size_t code) __attribute__((always_inline)) {
        for (size_t v = 0; v < kVectors; ++v)
          parts[v][k] += weight * Load<Vector>(codebook + code * vector_bytes, v);
        codebook += codebook_step;
        InOrder(&codebook);
      });
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t column = v * sizeof(Vector) / sizeof(float);
      FoldParts(parts[v], kGroups, block.first && first == 0, totals, at + column, layout.width);
    }
  }
}

// kVectors of columns of every group of a part, from `column` on.
template <class Vector, size_t kVectors>
__attribute__((noinline)) void AddColumns(const Layout& layout, const RowPart& part, const BagBlock& block,
                                          size_t column, const Totals& totals) {
  const CodeReader reader(layout);
  const size_t whole = part.groups / kCodesAtOnce * kCodesAtOnce;
  const unsigned char* values = layout.values + part.first * layout.codebook_step + column * sizeof(float);
  size_t group = 0, from = 0, at = part.first * layout.width + column;
  for (; group < whole; group += kCodesAtOnce, from += reader.bits()) {
    const auto eight = [&](size_t i, const auto& use) __attribute__((always_inline)) {
      reader.template Eight<false>(part.stage.Row(i) + from, use);
    };
    AddGroups<Vector, kVectors, kCodesAtOnce>(layout, block, values, eight, totals, at);
    values += kCodesAtOnce * layout.codebook_step;
    at += kCodesAtOnce * layout.width;
  }
  for (; group < part.groups; ++group, values += layout.codebook_step, at += layout.width) {
    const auto one = [&](size_t i, const auto& use) __attribute__((always_inline)) {
      use(0, reader.template One<false>(part.stage.Row(i) + from, group - whole));
    };
    AddGroups<Vector, kVectors, 1>(layout, block, values, one, totals, at);
  }
}

inline bool IsFused(const Table& table, const Layout& layout, BagMode mode) {
  return mode != BagMode::kMax && table.value_type == EE_FLOAT32 && layout.width % 4 == 0 &&
         !layout.must_clamp();
}

// The common data of a call.
struct BagWork {
  const Table& table;
  const Layout layout;
  RowMaker* make;
  bool fused, largest;
  size_t step;  // columns, rounded up to whole registers
  Totals totals;
  float* made;  // [kMadeAtOnce, step]
  Stage& stage;
};

// Uses the widest columns first: those of a group need not fill whole registers.
template <size_t kWidest>
void AddFused(const BagWork& work, const RowPart& part, const BagBlock& block, size_t column) {
  constexpr size_t kVectors = kWidest > kLanes ? kWidest / kLanes : 1;
  using Vector = typename VectorOf<kWidest / kVectors>::Type;
  for (; column + kWidest <= work.layout.width; column += kWidest) {
    AddColumns<Vector, kVectors>(work.layout, part, block, column, work.totals);
  }
  if constexpr (kWidest > 4) AddFused<kWidest / 2>(work, part, block, column);
}

inline void AddMade(const BagWork& work, const float* weights, size_t count, bool first) {
  for (size_t k = 0; k < work.step; k += kLanes) {
    Floats part{};
    for (size_t i = 0; i < count; ++i) part += weights[i] * LoadFloats(work.made + i * work.step + k);
    Fold(part, first, work.totals, k);
  }
}

// As in numpy, NaN stays.
inline void KeepLargest(const BagWork& work, size_t count, bool first) {
  for (size_t k = 0; k < work.step; k += kLanes) {
    const float* row = work.made + k;
    Floats largest = LoadFloats(first ? row : work.totals.high + k);
    for (size_t i = 0; i < count; ++i, row += work.step) {
      const Floats value = LoadFloats(row), larger = value <= largest ? largest : value;
      largest = largest == largest ? larger : largest;
    }
    StoreFloats(largest, work.totals.high + k);
    StoreFloats(Floats{}, work.totals.low + k);
  }
}

__attribute__((noinline)) void ReduceBlock(const BagWork& work, const BagBlock& block) {
  const Layout& layout = work.layout;
  if (work.fused) {
    const size_t at_once = Stage::GroupsAtOnce(layout);
    for (size_t first = 0; first < layout.groups; first += at_once) {
      const size_t left = layout.groups - first, groups = left < at_once ? left : at_once;
      work.stage.Read(layout, block.ids, block.count, first, groups);
      AddFused<kSideBySide * kLanes>(work, {work.stage, first, groups}, block, 0);
    }
    return;
  }
  const RowOutput made{reinterpret_cast<unsigned char*>(work.made), work.step * sizeof(float),
                       work.table.value_type != EE_FLOAT32};
  for (size_t i = 0; i < block.count; i += kMadeAtOnce) {
    const size_t left = block.count - i, count = left < kMadeAtOnce ? left : kMadeAtOnce;
    const bool first = block.first && i == 0;
    WriteBlock(work.table, layout, work.make, work.stage, block.ids + i, count, made);
    if (work.largest) {
      KeepLargest(work, count, first);
    } else {
      AddMade(work, block.weights + i, count, first);
    }
  }
}

// The weight of a row, 1 without weights. Not inlined: compilers would make vectors of the conversions.
__attribute__((noinline)) inline float WeightOf(const Bags& bags, size_t i) {
  if (bags.sample_weights == nullptr) return 1;
  return bags.sample_weight_type == EE_FLOAT16 ? ToFloat(Load<Half>(bags.sample_weights, i))
                                               : Load<float>(bags.sample_weights, i);
}

// Reads the next ids of a bag, up to its end or to an invalid id. Returns the position after them.
__attribute__((noinline)) size_t TakeBlock(const Table& table, const Ids& ids, const Bags& bags, size_t begin,
                                           size_t end, BagBlock* block) {
  size_t i = begin, count = 0;
  for (; i < end && count < kBagRows; ++i) {
    const int64_t id = ids.At(i);
    if (id == table.padding_idx && id != kNoPadding) continue;
    if (id < 0 || id >= table.num_embeddings) break;
    block->ids[count] = static_cast<size_t>(id);
    block->weights[count] = WeightOf(bags, i);
    ++count;
  }
  block->count = count;
  return i;
}

// Writes the columns of a result.
#ifndef __wasm__  // where a call takes more bytes
__attribute__((noinline))
#endif
inline void WriteTotals(const Totals& totals, float divisor, size_t columns, const Output& out, size_t at) {
  const size_t size = SizeOf(out.type);
  unsigned char* to = static_cast<unsigned char*>(out.data) + at * size;
  for (size_t k = 0; k < columns; k += kLanes, to += kLanes * size) {
    const Floats high = LoadFloats(totals.high + k), sum = high + LoadFloats(totals.low + k);
    Floats result = high - high == Floats{} ? sum : high;  // an infinite sum has no error
    if (divisor > 1) result /= divisor;
    if (columns - k >= kLanes) {
      StoreAs(result, out.type, to);
    } else {
      unsigned char last[kVectorBytes];
      StoreAs(result, out.type, last);
      CopyBytes(last, (columns - k) * size, to);
    }
  }
}

inline size_t BagStep(size_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

// Doubles of the two totals and of the rows.
inline Size BagScratch(const Table& table) {
  const Size columns =
      Size(static_cast<uint64_t>(table.num_groups)) * static_cast<uint64_t>(table.group_width);
  return (columns + kLanes) * (1 + kMadeAtOnce / 2);
}

// Prefetches the codes of the next ids, each once. *ahead is the position after them.
__attribute__((noinline)) void PrefetchAhead(const Table& table, const Layout& layout, const Ids& ids,
                                             size_t begin, size_t* ahead) {
  size_t some[2 * kBagRows], count = 0;
  size_t i = *ahead < begin ? begin : *ahead;
  for (; i < ids.count && i < begin + 2 * kBagRows; ++i) {
    const int64_t id = ids.At(i);
    if (id >= 0 && id < table.num_embeddings) some[count++] = static_cast<size_t>(id);
  }
  PrefetchCodes(layout, some, count);
  *ahead = i;
}

// Adds the rows of one bag, ids begin .. end-1, to the totals. *counted is the number of rows without
// padding.
inline ee_status ReduceBag(const BagWork& work, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                           size_t* ahead, size_t* counted, size_t* bad_position) {
  *counted = 0;
  while (begin < end) {
    BagBlock block;
    const size_t next = TakeBlock(work.table, ids, bags, begin, end, &block);
    PrefetchAhead(work.table, work.layout, ids, begin, ahead);
    if (next < end && block.count < kBagRows) {
      *bad_position = next;
      return EE_ID_OUT_OF_RANGE;
    }
    block.first = *counted == 0;
    if (block.count > 0) ReduceBlock(work, block);
    *counted += block.count;
    begin = next;
  }
  return EE_OK;
}

inline ee_status Bag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                     const Output& out, double* scratch, size_t* bad_position) {
  const Layout layout(table);
  const size_t columns = layout.groups * layout.width, step = BagStep(columns);
  float* const floats = reinterpret_cast<float*>(scratch);
  Stage stage;
  const BagWork work{table,
                     layout,
                     ChooseRowMaker(layout),
                     IsFused(table, layout, bags.mode),
                     bags.mode == BagMode::kMax,
                     step,
                     {floats, floats + step},
                     floats + 2 * step,
                     stage};
  if (!work.fused) __builtin_memset(work.made, 0, kMadeAtOnce * step * sizeof(float));
  size_t ahead = 0;
  for (size_t bag = begin; bag < end; ++bag) {
    const size_t first = static_cast<size_t>(Load<int64_t>(bags.offsets, bag));
    const size_t last = static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1));
    size_t counted;
    const ee_status status = ReduceBag(work, ids, bags, first, last, &ahead, &counted, bad_position);
    if (status != EE_OK) return status;
    if (counted == 0) __builtin_memset(floats, 0, 2 * step * sizeof(float));
    const float divisor = bags.mode == BagMode::kMean && counted > 0 ? static_cast<float>(counted) : 1;
    WriteTotals(work.totals, divisor, columns, out, bag * columns);
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_BAG_H_
