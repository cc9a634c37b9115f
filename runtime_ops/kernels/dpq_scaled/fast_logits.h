// logits[b, i] = row_scales[row_scale_codes[i]] * plain_logits[b, i]
//
// The plain kernels compute the logits of a block of rows as float32, which are then multiplied. Compared
// with rows that are rounded first, a term has two more roundings (product and row), and fewer additions than
// the bound allows. If there are unused columns, the states get zeros in their place.
//
// Rows of small numbers need no tables of products. One state is multiplied with the codes of four rows as
// they are decoded. Sixteen sums of a row then take 2 + 4 roundings for 32 columns, beside those of the scale
// and of the row. For more states, four rows are made and multiplied with all of them.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_LOGITS_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_LOGITS_H_

#include "kernels/dpq/fast_logits.h"
#include "kernels/dpq_scaled/fast_columnwise.h"
#include "kernels/variant.h"

namespace edge_embed::dpq_scaled {
namespace {

using PlainLogits = LogitsKernel<dpq::Table>;

constexpr size_t kBlockLogits = 4096;
constexpr size_t kSumVectors = 16 / kLanes;
constexpr size_t kDotRows = 4;

// The prepared data: a number that tells whether rows are decoded, states with zeros for columns that they
// lack, and the prepared data of the plain kernel.
struct Prepared {
  Prepared(const Table& table, size_t batch)
      : states(1),
        plain(states + Size(batch) * RowDoubles(table, 1) + kAlignment),
        of_state(RowStep(table)) {}

  Size states, plain;  // doubles before each part
  size_t of_state;     // floats of a state for decoded rows; those of other states follow each other
};

// True if column-wise rows are made for an output layer.
inline bool MakesColumns(const dpq::Table& table) { return IsColumnwise(table) && !dpq::Permutes(table); }

// Groups of all states of a lookup whose products fit the first-level cache.
constexpr size_t kMostLookedUpGroups = 512;

// True if rows are decoded. Lookups of four-bit codes of many rows at once are as fast or faster for one or
// two states, and with AVX-512 for several, four at a time, whose products fit a cache.
inline bool Decodes(const Table& table, size_t batch) {
  if (MakesColumns(table)) return true;
  const size_t groups = (batch < 4 ? batch : 4) * static_cast<size_t>(table.num_groups);
  const bool pays = kMostTableBits == 0 ? batch <= 2 : batch > 1 && groups <= kMostLookedUpGroups;
  return !(pays && dpq::Permutes(table.plain())) && Decoder(table, Layout(table.plain())).fits();
}

template <class Double>
auto* States(Double* prepared) {
  return AlignedFloats(prepared + 1);
}

template <const PlainLogits& kPlain>
__attribute__((noinline, cold)) Size PreparedDoubles(const Table& table, size_t batch) {
  return Prepared(table, batch).plain + kPlain.Prepared(table.plain(), batch);
}

template <const PlainLogits& kPlain>
__attribute__((noinline)) void Prepare(const Table& table, const float* hidden, size_t batch,
                                       double* memory) {
  const Prepared parts(table, batch);
  const size_t columns = Columns(table), plain_columns = dpq::Columns(table.plain());
  const bool decodes = Decodes(table, batch), copies = decodes || table.unused_columns > 0;
  *memory = decodes;
  float* const states = States(memory);
  const size_t step = decodes ? parts.of_state : plain_columns;
  for (size_t b = 0; copies && b < batch; ++b) {
    float* const state = states + b * step;
    __builtin_memcpy(state, reinterpret_cast<const unsigned char*>(hidden) + b * columns * sizeof(float),
                     columns * sizeof(float));
    for (size_t k = columns; k < step; ++k) state[k] = 0;
  }
  if (!decodes) {
    kPlain.Prepare(table.plain(), copies ? states : hidden, batch, memory + parts.plain.saturated());
  }
}

// The scales of some rows, and their logits as float32.
struct LogitsBlock {
  float scales[kBlockLogits + kLanes];
  float logits[kBlockLogits + kLanes];
};

template <const PlainLogits& kPlain>
__attribute__((noinline)) Size LogitsScratch(const Table& table) {
  const size_t rows = MakesColumns(table) ? kWindowRows : kDotRows;
  const Size made = RowMaker::MemoryDoubles(table) + RowDoubles(table, rows / 2) + CodebookDoubles(table);
  return Max(made, kPlain.scratch(table.plain())) + sizeof(LogitsBlock) / sizeof(double) + kAlignment;
}

// Rows that were made, in place of codes.
class MadeNumbers {
 public:
  __attribute__((always_inline)) static constexpr size_t step_bytes() { return kStep * sizeof(float); }
  __attribute__((always_inline)) void Decode(const unsigned char* row, Floats (&numbers)[kVectors]) const {
    for (size_t v = 0; v < kVectors; ++v) numbers[v] = LoadFloats(row + v * kVectorBytes);
  }
};

typedef float FourFloats __attribute__((vector_size(4 * sizeof(float))));

// The sums of the lanes of four vectors. Lanes of two vectors are interleaved in each four, so that one
// addition serves both.
__attribute__((always_inline)) inline FourFloats SumLanes(Floats a, Floats b, Floats c, Floats d) {
#if defined(__AVX512F__)
#define EDGE_EMBED_IN_FOURS(x, y, i, j)                                                                   \
  __builtin_shufflevector(x, y, i, 16 + i, j, 16 + j, 4 + i, 20 + i, 4 + j, 20 + j, 8 + i, 24 + i, 8 + j, \
                          24 + j, 12 + i, 28 + i, 12 + j, 28 + j)
#define EDGE_EMBED_PAIRS(x, y, i)                                                                     \
  __builtin_shufflevector(x, y, i, i + 1, 16 + i, 17 + i, 4 + i, 5 + i, 20 + i, 21 + i, 8 + i, 9 + i, \
                          24 + i, 25 + i, 12 + i, 13 + i, 28 + i, 29 + i)
#elif defined(__AVX__)
#define EDGE_EMBED_IN_FOURS(x, y, i, j) \
  __builtin_shufflevector(x, y, i, 8 + i, j, 8 + j, 4 + i, 12 + i, 4 + j, 12 + j)
#define EDGE_EMBED_PAIRS(x, y, i) \
  __builtin_shufflevector(x, y, i, i + 1, 8 + i, 9 + i, 4 + i, 5 + i, 12 + i, 13 + i)
#else
#define EDGE_EMBED_IN_FOURS(x, y, i, j) __builtin_shufflevector(x, y, i, 4 + i, j, 4 + j)
#define EDGE_EMBED_PAIRS(x, y, i) __builtin_shufflevector(x, y, i, i + 1, 4 + i, 5 + i)
#endif
  const Floats first = EDGE_EMBED_IN_FOURS(a, b, 0, 1) + EDGE_EMBED_IN_FOURS(a, b, 2, 3);
  const Floats second = EDGE_EMBED_IN_FOURS(c, d, 0, 1) + EDGE_EMBED_IN_FOURS(c, d, 2, 3);
  const Floats all = EDGE_EMBED_PAIRS(first, second, 0) + EDGE_EMBED_PAIRS(first, second, 2);
#undef EDGE_EMBED_IN_FOURS
#undef EDGE_EMBED_PAIRS
  FourFloats fours[kLanes / 4];
  __builtin_memcpy(fours, &all, sizeof(all));
  return dpq::Tree<FourFloats, kLanes / 4>([&](size_t k) { return fours[k]; }, 0);
}

// dots[r] = (numbers of row r) . state
template <class Decoding>
__attribute__((always_inline)) inline void DotRows(const Decoding& decoder,
                                                   const unsigned char* const (&codes)[kDotRows],
                                                   const float* state, size_t columns, float* dots) {
  const size_t step_bytes = decoder.step_bytes();
  // Registers of a row take turns: sixteen sums.
  constexpr size_t kTurns = kSumVectors < kVectors ? 1 : kSumVectors / kVectors;
  Floats sums[kDotRows][kTurns * kVectors];
#pragma GCC unroll 4
  for (size_t r = 0; r < kDotRows; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kTurns * kVectors; ++v) sums[r][v] = Floats{};
  }
  size_t at = 0;
  for (size_t k = 0; k < columns; k += kTurns * kStep) {
#pragma GCC unroll 4
    for (size_t turn = 0; turn < kTurns; ++turn, at += step_bytes) {
#pragma GCC unroll 4
      for (size_t r = 0; r < kDotRows; ++r) {
        Floats numbers[kVectors];
        decoder.Decode(codes[r] + at, numbers);
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          sums[r][turn * kVectors + v] += numbers[v] * LoadFloats(state + k + turn * kStep + v * kLanes);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (size_t r = 0; r < kDotRows; ++r) {
    const Floats* parts = sums[r];
    sums[r][0] = dpq::Tree<Floats, kTurns * kVectors>([=](size_t part) { return parts[part]; }, 0);
  }
  Store(SumLanes(sums[0][0], sums[1][0], sums[2][0], sums[3][0]), dots, 0);
}

// Logits of the rows first .. first+rows-1 of one state, without their scales.
__attribute__((noinline)) inline void NumberLogits(const RowMaker& maker, const float* state, size_t first,
                                                   size_t rows, float* logits) {
  WithNumbers(maker.decoder(), [&](const auto& numbers) __attribute__((always_inline)) {
    for (size_t row = 0; row < rows; row += kDotRows) {
      const unsigned char* codes[kDotRows];
      float dots[kDotRows];
      for (size_t r = 0; r < kDotRows; ++r) {  // missing rows repeat the last one
        codes[r] = maker.codes().At(first + (row + r < rows ? row + r : rows - 1));
        PrefetchAt(codes[r], 4096);
      }
      DotRows(numbers, codes, state, maker.columns(), dots);
      for (size_t r = 0; r < kDotRows && row + r < rows; ++r) logits[row + r] = dots[r];
    }
  });
}

// Reads the scales of the rows first .. first+rows-1. Returns the number of rows before the first one with a
// damaged scale code.
__attribute__((noinline)) inline size_t ScalesOf(const Table& table, size_t first, size_t rows,
                                                 float* scales) {
  const unsigned char* const codes = table.row_scale_codes + (table.has_scales() ? first : 0);
  const unsigned char* const values = table.row_scales;
  const size_t count = static_cast<size_t>(table.num_row_scales);
  const size_t padding = static_cast<size_t>(table.padding_idx) - first;  // very large without a padding row
  for (size_t i = 0; i < rows; ++i) {
    scales[i] = 1;
    if (count == 0 || i == padding) continue;
    if (codes[i] >= count) return i;
    scales[i] = Load<float>(values, codes[i]);
  }
  return rows;
}

// Writes logits [batch, rows] times their scales.
__attribute__((noinline)) inline void WriteScaled(const LogitsBlock& block, const LogitsOutput& logits,
                                                  size_t batch, size_t first, size_t rows) {
  const size_t size = SizeOf(logits.out.type);
  for (size_t b = 0; b < batch; ++b) {
    auto* const to = static_cast<unsigned char*>(logits.out.data) + logits.At(b, first) * size;
    const float* const from = block.logits + b * rows;
    for (size_t i = 0; i < rows; i += kLanes) {
      const Floats scaled = LoadFloats(from + i) * LoadFloats(block.scales + i);
      if (rows - i >= kLanes) {
        StoreAs(scaled, logits.out.type, to + i * size);
      } else {
        unsigned char last[kVectorBytes];
        StoreAs(scaled, logits.out.type, last);
        dpq::CopyRest(last, (rows - i) * size, to + i * size);
      }
    }
  }
}

// Logits of `count` made rows, which are `step` floats apart, from the row `first` on. Up to three rows after
// them are read.
__attribute__((noinline)) inline void DotMade(const float* made, size_t step, size_t count, size_t first,
                                              const float* states, size_t batch, size_t columns,
                                              const LogitsOutput& logits) {
  for (size_t row = 0; row < count; row += kDotRows, made += kDotRows * step) {
    const unsigned char* rows[kDotRows];
    for (size_t r = 0; r < kDotRows; ++r) rows[r] = reinterpret_cast<const unsigned char*>(made + r * step);
    for (size_t b = 0; b < batch; ++b) {
      float dots[kDotRows];
      DotRows(MadeNumbers(), rows, states + b * step, columns, dots);
      for (size_t r = 0; r < kDotRows && row + r < count; ++r) {
        dpq::StoreLogit(dots[r], logits.out, logits.At(b, first + row + r));
      }
    }
  }
}

// Logits of decoded rows for several states: rows are made with their scales.
__attribute__((noinline)) inline void MakeLogits(RowMaker* maker, const float* states, size_t batch,
                                                 const float* scales, size_t first, size_t rows,
                                                 const LogitsOutput& logits, float* made) {
  for (size_t row = 0; row < rows; row += kDotRows) {
    size_t ids[kDotRows], count = 0;
    for (; count < kDotRows && row + count < rows; ++count) ids[count] = first + row + count;
    maker->Make(ids, scales + row, count, made);
    DotMade(made, maker->step(), count, first + row, states, batch, maker->columns(), logits);
  }
}

#if defined(__AVX512VBMI__)

// The same for column-wise rows.
__attribute__((noinline)) inline void ColumnLogits(const Table& table, const RowMaker& maker,
                                                   const float* states, size_t batch, const float* scales,
                                                   size_t first, size_t rows, const LogitsOutput& logits,
                                                   float* made) {
  auto* const memory = reinterpret_cast<double*>(made) + RowDoubles(table, kWindowRows / 2).saturated();
  ColumnRows made_rows(table, maker.layout(), false, false, memory);
  Window window;
  const unsigned char* none = nullptr;
  for (size_t row = 0; row < rows; row += kWindowRows) {
    window.count = rows - row < kWindowRows ? rows - row : kWindowRows;
    for (size_t i = 0; i < window.count; ++i) {
      const size_t id = first + row + i;
      window.codes[i] = maker.codes().At(id);
      window.scales[i] = scales[row + i];
      window.counted[i] = static_cast<int64_t>(id) != table.padding_idx;
      InOrder(&none);  // keeps the loop short
    }
    made_rows.Copy(window, maker.columns(), table.has_scales(), {made, EE_FLOAT32}, 0,
                   maker.step() * sizeof(float));
    DotMade(made, maker.step(), window.count, first + row, states, batch, maker.columns(), logits);
  }
}

#endif

template <const PlainLogits& kPlain>
__attribute__((noinline)) ee_status Logits(const Table& table, const LogitsInput& input, size_t begin,
                                           size_t end, const LogitsOutput& logits, double* scratch,
                                           size_t* bad_position) {
  if (input.batch == 0) return EE_OK;
  const Prepared parts(table, input.batch);
  const bool decodes = *input.prepared != 0;
  const float* const states = States(input.prepared);
  const LogitsInput plain{table.unused_columns > 0 ? states : input.hidden, input.batch,
                          input.prepared + parts.plain.saturated()};
  auto& block = *reinterpret_cast<LogitsBlock*>(AlignedFloats(scratch));
  double* const rest = scratch + kAlignment + sizeof(LogitsBlock) / sizeof(double);
  RowMaker maker(table, rest);
  float* const made = reinterpret_cast<float*>(rest + RowMaker::MemoryDoubles(table).saturated());
  const bool makes_columns = MakesColumns(table);
  if (decodes) {
    __builtin_memset(made, 0, (makes_columns ? kWindowRows : kDotRows) * maker.step() * sizeof(float));
  }
  const size_t at_once = input.batch < kBlockLogits ? kBlockLogits / input.batch : 1;
  for (size_t first = begin; first < end; first += at_once) {
    const size_t wanted = end - first < at_once ? end - first : at_once;
    const size_t rows = ScalesOf(table, first, wanted, block.scales);
    if (makes_columns) {
#if defined(__AVX512VBMI__)
      ColumnLogits(table, maker, states, input.batch, block.scales, first, rows, logits, made);
#endif
    } else if (decodes && input.batch > 1) {
      MakeLogits(&maker, states, input.batch, block.scales, first, rows, logits, made);
    } else if (rows > 0) {
      const size_t padding = static_cast<size_t>(table.padding_idx) - first;
      if (decodes) {
        NumberLogits(maker, states, first, rows, block.logits);
        if (padding < rows) dpq::MakePadding(input.hidden, maker.columns(), 1, block.logits + padding);
      } else {
        kPlain.run(table.plain(), plain, first, first + rows, {{block.logits, EE_FLOAT32}, rows, first}, rest,
                   bad_position);
      }
      WriteScaled(block, logits, input.batch, first, rows);
    }
    if (rows < wanted) {
      *bad_position = first + rows;
      return EE_BAD_ROW_SCALE_CODE;
    }
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_LOGITS_H_
