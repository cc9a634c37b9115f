// logits[b, i] = sum over c of hidden[b, c] * row(i)[c]
//
// A table of products (fast_products.h, fast_permute.h) is used if there are enough rows for it. Otherwise, a
// few rows are computed and multiplied with all states.
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_LOGITS_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_LOGITS_H_

#include "kernels/dpq/fast_gather.h"
#include "kernels/dpq/fast_permute.h"

namespace edge_embed::dpq {
namespace {

// A dot product has sixteen independent sums for any width of a register. For 64 terms, each term is rounded
// once as a product, at most three times in its sum of four, and four times when the sums are added.
constexpr size_t kSums = 16;
constexpr size_t kRegisters = kSums / kLanes;

// Rows and states that are multiplied together: their sums fill eight registers.
constexpr size_t kTileRows = kLanes / 4;
constexpr size_t kTileStates = 2;
// Number of rows in scratch.
constexpr size_t kMadeRows = 4;

// Rows as floats, each padded with zeros to a multiple of kSums.
struct MadeRows {
  const float* rows;
  size_t step;     // floats from one row to the next
  size_t columns;  // without the padding
};

// dots[r][b] = rows[r] . states[b]
inline void DotTile(const MadeRows& made, size_t first_row, const float* const (&states)[kTileStates],
                    float (&dots)[kTileRows][kTileStates]) {
  Floats sums[kTileRows][kTileStates][kRegisters] = {};
  const float* rows = made.rows + first_row * made.step;
  const size_t whole = made.columns / kSums * kSums;
  float last[kTileStates][kSums] = {};  // the last columns of the states, padded like the rows
  for (size_t b = 0; b < kTileStates; ++b) {
    CopyRest(reinterpret_cast<const unsigned char*>(states[b] + whole),
             (made.columns - whole) * sizeof(float), reinterpret_cast<unsigned char*>(last[b]));
  }
  for (size_t k = 0; k < made.columns; k += kSums, rows += kSums) {
    const float* from[kTileStates];
    for (size_t b = 0; b < kTileStates; ++b) from[b] = k < whole ? states[b] + k : last[b];
    for (size_t part = 0; part < kSums; part += kLanes) {
      for (size_t r = 0; r < kTileRows; ++r) {
        const Floats row = LoadFloats(rows + r * made.step + part);
        for (size_t b = 0; b < kTileStates; ++b)
          sums[r][b][part / kLanes] += row * LoadFloats(from[b] + part);
      }
    }
  }
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t b = 0; b < kTileStates; ++b) {
      const Floats* parts = sums[r][b];
      const Floats sum = Tree<Floats, kRegisters>([=](size_t part) { return parts[part]; }, 0);
      dots[r][b] = Tree<float, kLanes>([=](size_t lane) { return sum[lane]; }, 0);
    }
  }
}

inline void StoreLogit(float value, const Output& logits, size_t at) {
  if (logits.type == EE_FLOAT32) return Store(value, logits.data, at);
  Store(ToHalf(static_cast<double>(value)), logits.data, at);
}

// Multiplies `count` rows, the first of which has the id `first`, with the states from `state` on. Missing
// states and rows at the end repeat others, and their results are discarded.
inline void MultiplyTiles(const LogitsCall& call, const MadeRows& made, size_t count, size_t first,
                          size_t state) {
  const size_t batch = call.input.batch;
  const float* states[kTileStates];
  for (size_t b = 0; b < kTileStates; ++b) {
    states[b] = call.input.hidden + (state + b < batch ? state + b : state) * made.columns;
  }
  for (size_t row = 0; row < count; row += kTileRows) {
    float dots[kTileRows][kTileStates];
    DotTile(made, row, states, dots);
    for (size_t r = 0; r < kTileRows && row + r < count; ++r) {
      for (size_t b = 0; b < kTileStates && state + b < batch; ++b) {
        StoreLogit(dots[r][b], call.logits.out, call.logits.At(state + b, first + row + r));
      }
    }
  }
}

inline size_t RowStep(size_t columns) { return (columns + kSums - 1) / kSums * kSums; }

// Missing rows at the end are multiplied too, and their results are discarded.
__attribute__((noinline)) void MultiplyRows(const Table& table, const Layout& layout, const LogitsCall& call,
                                            double* scratch) {
  const size_t columns = layout.groups * layout.width, step = RowStep(columns);
  RowMaker* const make = ChooseRowMaker(layout);
  const RowOutput output{reinterpret_cast<unsigned char*>(scratch), step * sizeof(float),
                         table.value_type != EE_FLOAT32};
  const MadeRows made{reinterpret_cast<const float*>(scratch), step, columns};
  __builtin_memset(scratch, 0, kMadeRows * step * sizeof(float));
  Stage stage;
  for (size_t first = call.begin; first < call.end; first += kMadeRows) {
    size_t ids[kMadeRows], count = 0;
    for (; count < kMadeRows && first + count < call.end; ++count) ids[count] = first + count;
    WriteBlock(table, layout, make, stage, ids, count, output);
    for (size_t b = 0; b < call.input.batch; b += kTileStates) MultiplyTiles(call, made, count, first, b);
  }
}

inline Size LogitsScratch(const Table& table) {
  const Size columns =
      Size(static_cast<uint64_t>(table.num_groups)) * static_cast<uint64_t>(table.group_width);
  const Size made = (columns + kSums) * kMadeRows;
  return made.fits() ? Max(made.saturated() / 2 + 1, PaddedRowDoubles(table)) : made;
}

// True if tables of products are prepared.
inline bool HasTables(const Table& table, size_t batch) {
  if (Permutes(table)) return true;
  return batch == 1 ? TablePays<OneState>(table) : TablePays<States>(table);
}

// Never less for a larger batch.
__attribute__((noinline, cold)) inline Size PreparedDoubles(const Table& table, size_t batch) {
  if (Permutes(table) || TablePays<States>(table)) return PartsDoubles(table, batch);
  return TablePays<OneState>(table) ? PartsDoubles(table, 1) : Size(0);
}

// Calls one(state) for a single state at the end, and some(state, count) for the states before.
template <class One, class Some>
void ForStates(size_t batch, const One& one, const Some& some) {
  for (size_t state = 0, count; state < batch; state += count) {
    count = batch - state < kStates ? batch - state : kStates;
    if (count == 1) {
      one(state);
    } else {
      some(state, count);
    }
  }
}

inline void Prepare(const Table& table, const float* hidden, size_t batch, double* memory) {
  if (Permutes(table)) return PreparePermuted(table, hidden, batch, memory);
  if (!HasTables(table, batch)) return;
  const Layout layout(table);
  const Parts parts(table, batch);
  float* const floats = AlignedFloats(memory);
  const size_t columns = layout.groups * layout.width;
  const auto make = [&](auto vector, size_t state, size_t count) {
    MakeProducts<decltype(vector)>(table, layout, hidden + state * columns, count, parts, floats,
                                   floats + state * parts.of_table);
  };
  ForStates(
      batch, [&](size_t state) { make(OneState{}, state, 1); },
      [&](size_t state, size_t count) { make(States{}, state, count); });
  MakePadding(hidden, columns, batch, floats + parts.padding);
}

inline ee_status Logits(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                        const LogitsOutput& logits, double* scratch, size_t*) {
  const LogitsCall call{input, begin, end, logits};
  const Layout layout(table);
  if (Permutes(table)) {
    PermuteLogits(table, call);
  } else if (!HasTables(table, input.batch)) {
    MultiplyRows(table, layout, call, scratch);
  } else {
    const Parts parts(table, input.batch);
    const float* const tables = AlignedFloats(input.prepared);
    const auto add = [&](auto vector, size_t state, size_t count) {
      TableLogits<decltype(vector)>(table, layout, call, state, count, tables + state * parts.of_table,
                                    tables + parts.padding, scratch);
    };
    ForStates(
        input.batch, [&](size_t state) { add(OneState{}, state, 1); },
        [&](size_t state, size_t count) { add(States{}, state, count); });
  }
  return EE_OK;
}

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_LOGITS_H_
