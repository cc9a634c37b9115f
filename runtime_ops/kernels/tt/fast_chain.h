// Rows, one core after another from the left:
//
//   state_1 = G_1[i_1],   state_k [J_1 * ... * J_k, R_k] = state_{k-1} @ G_k[i_k],   row = state_N
//
// All states of a row are kept, because ids with equal first digits have equal first states: the ids I_N * p
// .. I_N * p + I_N - 1 differ in the last core only. A row of a ring is a sum of such chains over r_0 = r_N.
#ifndef EDGE_EMBED_KERNELS_TT_FAST_CHAIN_H_
#define EDGE_EMBED_KERNELS_TT_FAST_CHAIN_H_

#include "kernels/fast_numbers.h"
#include "kernels/fast_product.h"
#include "kernels/tt/tt.h"

namespace edge_embed::tt {
namespace {

// The length of a run for rows that are sums over `paths` paths through the ranks of `num_cores` cores. Long
// runs are faster.
//
// Rounding: the aim is 8 roundings of a term (4 ULP of float32) over all products of a row
// (kernels/fast_product.h) up to 64 paths, and paths / 8 above. Over all ranks, the largest numbers of
// roundings are 9 for three cores (ranks 3 and 17; equal ranks and powers of two stay below), 9 for two cores
// (65), and 12 for six cores with 45 paths.
//
// Numbers of a prepacked core (merge.h) add one rounding. The paths inside of it count for the bound, but not
// for the run. With at least two such ranks, the largest numbers are 9 for two cores (33) and for three (3
// and 9), and 11 for five. The inner ranks of the last case are 1, 10, 10 and 12.
__attribute__((always_inline)) inline size_t RunLength(uint64_t paths, size_t num_cores) {
  if (paths >= 1024) return 32;
  if (paths >= 256 && num_cores <= 3) return 16;
  if (paths >= 160) return 8;
  return num_cores == 2 ? 4 : 2;
}

__attribute__((always_inline)) inline size_t At(int64_t size) { return static_cast<size_t>(size); }
__attribute__((always_inline)) inline unsigned char* Bytes(float* array) {
  return reinterpret_cast<unsigned char*>(array);
}

// Aligns the buffers of a call to cache lines; those of the caller may have any alignment.
constexpr size_t kLineFloats = 64 / sizeof(float);
__attribute__((always_inline)) inline float* Aligned(double* scratch) {
  return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch) + 63) & ~uintptr_t{63});
}
inline Size AlignedDoubles(Size floats) {
  return floats.fits() ? Size(floats.saturated() / 2) + kLineFloats : floats;
}
__attribute__((always_inline)) inline size_t WholeLines(size_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

class Chain {
 public:
  // Scratch of a chain: a state for each core except the last, a slice, and the row of a ring in doubles.
  static Size ScratchFloats(const Table& table) {
    return StateDoubles(table) * static_cast<uint64_t>(table.num_cores - 1) + SliceDoubles(table) +
           Size(Columns(table)) * 2 + 8 * kLineFloats;
  }

  __attribute__((noinline, cold)) Chain(const Table& table, float* scratch)
      : table_(table), last_(At(table.num_cores) - 1) {
    rows_[0] = At(table.cores[0].columns);
    for (size_t k = 0; k < last_; ++k) {
      const Core& core = table.cores[k];
      if (k > 0) rows_[k] = rows_[k - 1] * At(core.columns);
      buffers_[k] = scratch;
      scratch += WholeLines(rows_[k] * At(core.rank_out));
    }
    Size paths = At(table.cores[0].rank_in);
    for (size_t k = 0; k < last_; ++k) paths = paths * At(table.cores[k].rank_out);
    run_ = RunLength(paths.saturated(), last_ + 1);
    ring_row_ = reinterpret_cast<double*>(scratch);
    columns_ = rows_[last_ - 1] * At(table.cores[last_].columns);
    slice_ = scratch + WholeLines(2 * columns_);
  }

  size_t columns() const { return columns_; }
  size_t prefix_rows() const { return rows_[last_ - 1]; }  // J_1 * ... * J_{N-1}

  // float32 [prefix_rows(), R_{N-1}], the state before the last core, which ids with the same prefix (all
  // digits except the last) share. Not for rings.
  const unsigned char* Prefix(size_t prefix) {
    ReadPrefix(prefix, 0);
    return states_[last_ - 1];
  }

  // row is float32 [columns()] at any alignment.
  __attribute__((noinline)) void Row(size_t id, unsigned char* row) {
    const size_t radix = At(table_.cores[last_].rows), digit = id % radix;
    const size_t rings = At(table_.cores[0].rank_in);
    for (size_t ring = 0; ring < rings; ++ring) {
      ReadPrefix(id / radix, ring);
      Product product = Times(last_, digit, ring);
      product.out = row;
      Multiply(product);
      if (rings > 1) AddToRing(ring, row);
    }
    for (size_t c = 0; c < columns_ && rings > 1; ++c) Store(static_cast<float>(ring_row_[c]), row, c);
  }

 private:
  static size_t SliceNumbers(const Core& core) {
    return At(core.rank_in) * At(core.columns) * At(core.rank_out);
  }

  // The product of the state before core k and the slice of that core.
  Product Times(size_t k, size_t digit, size_t ring) {
    const Core& core = table_.cores[k];
    const size_t rank = At(core.rank_in);
    Product product;
    product.state = states_[k - 1];
    product.row_step = rank * sizeof(float);
    product.inner_step = sizeof(float);
    product.slice = Slice(k, digit, ring);
    product.rows = rows_[k - 1];
    product.inner = rank;
    product.columns = At(core.columns) * (k == last_ ? 1 : At(core.rank_out));
    product.run = run_;
    product.out = nullptr;
    return product;
  }

  // float32 [R_{k-1}, J_k * R_k], in the table or in scratch. A ring reads row r_0 of the first core and the
  // columns r_N of the last core.
  __attribute__((noinline)) const unsigned char* Slice(size_t k, size_t digit, size_t ring) {
    const Core& core = table_.cores[k];
    const size_t size = SizeOf(table_.core_type), numbers = SliceNumbers(core);
    const unsigned char* stored = core.data + digit * numbers * size;
    if (k == 0) {
      const size_t count = rows_[0] * At(core.rank_out);
      stored += ring * count * size;
      if (table_.core_type == EE_FLOAT32) return stored;
      WidenNumbers(stored, table_.core_type, count, buffers_[0]);
      return Bytes(buffers_[0]);
    }
    const size_t step = k == last_ ? At(core.rank_out) : 1;
    if (step > 1) {
      for (size_t i = 0; i < numbers / step; ++i) {
        slice_[i] = static_cast<float>(LoadNumber(stored, table_.core_type, i * step + ring));
      }
      return Bytes(slice_);
    }
    if (table_.core_type == EE_FLOAT32) return stored;
    WidenNumbers(stored, table_.core_type, numbers, slice_);
    return Bytes(slice_);
  }

  // Computes the states that differ from those of the previous row.
  __attribute__((noinline)) void ReadPrefix(size_t prefix, size_t ring) {
    if (prefix == prefix_ && ring == ring_) return;
    size_t digits[EE_MAX_CORES];
    size_t rest = prefix;
    for (size_t k = last_; k-- > 0;) {
      digits[k] = rest % At(table_.cores[k].rows);
      rest /= At(table_.cores[k].rows);
    }
    bool same = ring == ring_;
    for (size_t k = 0; k < last_; ++k) {
      same = same && digits[k] == digits_[k];
      if (same) continue;
      digits_[k] = digits[k];
      if (k == 0) {
        states_[0] = Slice(0, digits[0], ring);
        continue;
      }
      Product product = Times(k, digits[k], ring);
      product.out = Bytes(buffers_[k]);
      states_[k] = product.out;
      Multiply(product);
    }
    prefix_ = prefix;
    ring_ = ring;
  }

  // Adds in float64, so that a ring of any size adds one rounding.
  __attribute__((noinline)) void AddToRing(size_t ring, const unsigned char* __restrict row) {
    double* const __restrict sums = ring_row_;
    if (ring == 0) __builtin_memset(sums, 0, columns_ * sizeof(double));
    for (size_t c = 0; c < columns_; ++c) sums[c] += static_cast<double>(Load<float>(row, c));
  }

  static constexpr size_t kNone = ~size_t{0};

  const Table& table_;
  const size_t last_;
  size_t columns_;
  size_t run_;
  size_t prefix_ = kNone, ring_ = 0;  // the prefix and the ring of the states
  size_t digits_[EE_MAX_CORES] = {kNone, kNone, kNone, kNone, kNone, kNone};
  size_t rows_[EE_MAX_CORES];  // J_1 * ... * J_{k+1}
  const unsigned char* states_[EE_MAX_CORES];
  float* buffers_[EE_MAX_CORES];
  float* slice_;
  double* ring_row_;  // the sum over the chains of a ring
};

// The row of a checked id; zeros for the padding row.
__attribute__((noinline)) void ReadChecked(const Table& table, Chain& chain, int64_t id, unsigned char* row) {
  if (id == table.padding_idx) {
    __builtin_memset(row, 0, chain.columns() * sizeof(float));
  } else {
    chain.Row(At(id), row);
  }
}

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_CHAIN_H_
