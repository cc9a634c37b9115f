// The reference kernels: one core after another, from the left. All other kernels are tested against them.
#include "kernels/reference.h"

#include "kernels/tt/tt.h"

namespace edge_embed::tt {
namespace {

size_t At(int64_t size) { return static_cast<size_t>(size); }

// The digits of an id, the least significant last.
void Split(const Table& table, size_t id, size_t* digits) {
  for (size_t k = At(table.num_cores); k-- > 0;) {
    digits[k] = id % At(table.cores[k].rows);
    id /= At(table.cores[k].rows);
  }
}

// out [rows, count] = state [rows, inner] @ slice [inner, count]
void Multiply(const double* state, const double* slice, size_t rows, size_t inner, size_t count,
              double* out) {
  for (size_t p = 0; p < rows; ++p) {
    Fill(0.0, count, out + p * count);
    for (size_t r = 0; r < inner; ++r) {
      AddVector(state[p * inner + r], slice + r * count, count, out + p * count);
    }
  }
}

// The slice of a core for a row, as doubles [inner, count]. The trace is computed for one r_0 = r_N at a
// time. The first core then contributes only the row r_0, and the last core only the columns that end in r_N.
struct Slice {
  size_t inner, count;
};
Slice ReadSlice(const Table& table, size_t k, size_t digit, size_t ring, double* out) {
  const Core& core = table.cores[k];
  const bool first = k == 0, last = k + 1 == At(table.num_cores);
  const size_t width = At(core.columns) * At(core.rank_out);
  const size_t start = (digit * At(core.rank_in) + (first ? ring : 0)) * width + (last ? ring : 0);
  const Slice slice{first ? 1 : At(core.rank_in), last ? At(core.columns) : width};
  for (size_t r = 0; r < slice.inner; ++r) {
    Widen(core.data, table.core_type, start + r * width, last ? At(core.rank_out) : 1, slice.count,
          out + r * slice.count);
  }
  return slice;
}

}  // namespace

Size RowScratch(const Table& table) { return StateDoubles(table) * 2 + SliceDoubles(table); }

ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch) {
  const size_t columns = Columns(table), state_doubles = static_cast<size_t>(StateDoubles(table).saturated());
  double* slice = scratch + 2 * state_doubles;
  size_t digits[EE_MAX_CORES];
  Split(table, id, digits);
  Fill(0.0, columns, row);
  for (size_t ring = 0; ring < At(table.cores[0].rank_in); ++ring) {
    double* state = scratch;
    double* next = scratch + state_doubles;
    size_t made = 1;  // columns of the row so far, J_1 * ... * J_k
    state[0] = 1.0;
    for (size_t k = 0; k < At(table.num_cores); ++k) {
      const Slice read = ReadSlice(table, k, digits[k], ring, slice);
      Multiply(state, slice, made, read.inner, read.count, next);
      made *= At(table.cores[k].columns);
      double* done = state;
      state = next;
      next = done;
    }
    AddVector(1.0, state, columns, row);
  }
  return EE_OK;
}

size_t Columns(const Table& table) {
  size_t columns = 1;
  for (size_t k = 0; k < At(table.num_cores); ++k) columns *= At(table.cores[k].columns);
  return columns;
}

uint64_t RowWork(const Table& table) {
  Size work = 0, made = 1;
  for (size_t k = 0; k < At(table.num_cores); ++k) {
    const Core& core = table.cores[k];
    made = made * At(core.columns);
    work = work + made * At(core.rank_in) * At(core.rank_out);
  }
  return work.saturated();
}

uint64_t LogitsWork(const Table& table) {
  const Core& last = table.cores[table.num_cores - 1];
  return (Size(At(last.rank_in)) * At(last.columns) * At(last.rank_out)).saturated();
}

}  // namespace edge_embed::tt

namespace edge_embed {

template ee_status GatherReference(const tt::Table&, const Ids&, size_t, size_t, const Output&, double*,
                                   size_t*);
template Size ScratchDoubles(const tt::Table&);
template ee_status BagReference(const tt::Table&, const Ids&, const Bags&, size_t, size_t, const Output&,
                                double*, size_t*);
template ee_status LogitsReference(const tt::Table&, const LogitsInput&, size_t, size_t, const LogitsOutput&,
                                   double*, size_t*);

}  // namespace edge_embed
