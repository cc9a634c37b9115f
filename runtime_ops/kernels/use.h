// What a table is used for, the same words for every method:
//
//   gather   rows[i, :]   = row(ids[i])
//   bag      out[b, :]    = sum | mean | max over i in [offsets[b], offsets[b+1]) of row(ids[i])
//   logits   logits[b, i] = sum over c of hidden[b, c] * row(i)[c]
//
// The row padding_idx is zero, and a bag skips it: it counts neither in a mean nor for a maximum. A bag of
// nothing is zero. Reference kernels sum everything in float64 and round once; fast ones stay within 4 units
// in the last place of the sum of the terms' magnitudes, times terms/32 for sums of more than 32. Rows of DPQ
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

// Where results go.
struct Output {
  void* data;
  ee_type type;  // float32 or float16
};

// What a head is given, and what its kernel has made of that before its first row.
struct HeadInput {
  const float* hidden;  // float32 [batch, d], any alignment
  size_t batch;
  const double* prepared;
};

// Where logits go: that of state b and row i is number b * step + i - first.
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

// EE_BAD_OFFSETS: *bad_position is the index of the first offset that is wrong.
ee_status CheckBags(const Bags& bags, size_t num_ids, size_t* bad_position);

// The kernels. Table is a valid one of any method (kernels/<method>/<method>.h). A call does a part of the
// work, begin .. end-1, and is given as many doubles of scratch as it asks for; it shares neither
// with another call. Where an id is no row, or its row is damaged, the status says so, *bad_position is the
// index of that id (logits: of the row), and what comes before it is written. *bad_position is untouched
// otherwise.

// Rows of the output, whose row 0 is at rows.data.
template <class Table>
ee_status GatherReference(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                          double* scratch, size_t* bad_position);

// Bags; CheckBags must have passed.
template <class Table>
ee_status BagReference(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                       const Output& out, double* scratch, size_t* bad_position);

// Logits of the rows begin .. end-1.
template <class Table>
ee_status LogitsReference(const Table& table, const HeadInput& input, size_t begin, size_t end,
                          const LogitsOutput& logits, double* scratch, size_t* bad_position);

// What any of them needs: a row, a sum of rows, and what the method needs to make a row.
template <class Table>
Size ScratchDoubles(const Table& table);

// Bytes of count rows of an output; false where that is more than any object can have.
inline bool OutputBytes(Size count, Size columns, ee_type type, size_t* bytes) {
  uint64_t all;
  if (!(count * columns * SizeOf(type)).Get(&all)) return false;
  *bytes = static_cast<size_t>(all);
  return true;
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_USE_H_
