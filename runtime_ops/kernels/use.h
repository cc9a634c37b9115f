// The uses of a table, with the same terms for every method:
//
//   gather   rows[i, :]   = row(ids[i])
//   bag      out[b, :]    = sum | mean | max over i in [offsets[b], offsets[b+1]) of row(ids[i])
//   logits   logits[b, i] = sum over c of hidden[b, c] * row(i)[c]
//
// The row padding_idx is zero, and a bag skips it, also in the count of a mean. An empty bag is zero.
//
// Precision: reference kernels sum in float64 and round once. Fast kernels are within 4 ULP of the sum of the
// absolute values of the terms. For sums of more than 32 terms, the bound is terms/32 times that. Rows of DPQ
// and maxima are exact.
#ifndef EDGE_EMBED_KERNELS_USE_H_
#define EDGE_EMBED_KERNELS_USE_H_

#include "kernels/element.h"
#include "kernels/size.h"
#include "kernels/status.h"

namespace edge_embed {

constexpr int64_t kNoPadding = -1;

struct Ids {
  const void* data;  // int32 or int64 [count], any alignment
  ee_type type;
  size_t count;

  int64_t At(size_t i) const {
    return type == EE_INT32 ? int64_t{Load<int32_t>(data, i)} : Load<int64_t>(data, i);
  }
};

// Destination of results.
struct Output {
  void* data;
  ee_type type;  // float32 or float16
  // For rows of DPQ only: result i has index places[i]; null: i
  const uint16_t* places = nullptr;
};

// Input of an output layer, and the part that its kernel prepared before the first row.
struct LogitsInput {
  const float* hidden;  // float32 [batch, d], any alignment
  size_t batch;
  const double* prepared;
};

// Destination of logits: state b and row i have index b * step + i - first.
struct LogitsOutput {
  Output out;
  size_t step;
  size_t first;

  size_t At(size_t state, size_t row) const { return state * step + row - first; }
};

enum class BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  const void* offsets;  // int64 [count + 1], any alignment
  size_t count;
  const void* sample_weights;  // float32 or float16 [number of ids], any alignment; null: all are 1
  ee_type sample_weight_type;
  BagMode mode;
};

// For EE_BAD_OFFSETS, *bad_position is the index of the first wrong offset.
ee_status CheckBags(const Bags& bags, size_t num_ids, size_t* bad_position);

// The kernels. Table is a valid table of any method (kernels/<method>/<method>.h). A call does the part begin
// .. end-1 of the work, with its own scratch of the required number of doubles. For an id out of range or a
// damaged row, *bad_position is the index of that id (logits: of the row), and all results before it are
// written. Otherwise, *bad_position is unchanged.

// Rows of the output. rows.data is the address of row 0.
template <class Table>
ee_status GatherReference(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                          double* scratch, size_t* bad_position);

// Bags, which must have passed CheckBags.
template <class Table>
ee_status BagReference(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                       const Output& out, double* scratch, size_t* bad_position);

// Logits of the rows begin .. end-1.
template <class Table>
ee_status LogitsReference(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                          const LogitsOutput& logits, double* scratch, size_t* bad_position);

// Scratch of any reference kernel: a row, a sum of rows, and the scratch of the method for a row.
template <class Table>
Size ScratchDoubles(const Table& table);

// Bytes of `count` rows of an output; false if they exceed the size of any object.
inline bool OutputBytes(Size count, Size columns, ee_type type, size_t* bytes) {
  uint64_t all;
  if (!(count * columns * SizeOf(type)).Get(&all)) return false;
  *bytes = static_cast<size_t>(all);
  return true;
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_USE_H_
