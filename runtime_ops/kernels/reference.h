// Gather, bag and logits as templates for every method: the plain kernels that the fast kernels are tested
// against.
//
// A method provides a struct Table with num_embeddings and padding_idx. It also provides Columns, RowScratch
// and ReadRow, which argument-dependent lookup finds. Its reference.cc includes this file and instantiates
// the three templates.
#ifndef EDGE_EMBED_KERNELS_REFERENCE_H_
#define EDGE_EMBED_KERNELS_REFERENCE_H_

#include "kernels/use.h"
#include "kernels/vector.h"

namespace edge_embed {

template <class Table>
Size ScratchDoubles(const Table& table) {
  return Size(Columns(table)) * 2 + RowScratch(table);
}

template <class Table>
ee_status ReadCheckedRow(const Table& table, int64_t id, double* row, double* scratch) {
  if (id < 0 || id >= table.num_embeddings) return EE_ID_OUT_OF_RANGE;
  if (id != table.padding_idx) return ReadRow(table, static_cast<size_t>(id), row, scratch);
  Fill(0.0, Columns(table), row);
  return EE_OK;
}

template <class Table>
ee_status GatherReference(const Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                          double* scratch, size_t* bad_position) {
  const size_t columns = Columns(table);
  double* row = scratch;
  for (size_t i = begin; i < end; ++i) {
    const ee_status status = ReadCheckedRow(table, ids.At(i), row, scratch + columns);
    if (status != EE_OK) {
      *bad_position = i;
      return status;
    }
    Narrow(row, columns, rows.data, rows.type, i * columns);
  }
  return EE_OK;
}

// One bag: the ids at positions [begin, end).
template <class Table>
ee_status ReduceBag(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                    double* result, double* scratch, size_t* bad_position) {
  const size_t columns = Columns(table);
  double* row = scratch;
  size_t counted = 0;
  Fill(0.0, columns, result);
  for (size_t i = begin; i < end; ++i) {
    const int64_t id = ids.At(i);
    if (id == table.padding_idx && id != kNoPadding) continue;
    const ee_status status = ReadCheckedRow(table, id, row, scratch + columns);
    if (status != EE_OK) {
      *bad_position = i;
      return status;
    }
    if (bags.mode == BagMode::kMax && counted > 0) {
      KeepLargest(row, columns, result);
    } else {
      const double weight =
          bags.sample_weights == nullptr ? 1.0 : LoadNumber(bags.sample_weights, bags.sample_weight_type, i);
      AddVector(weight, row, columns, result);
    }
    ++counted;
  }
  if (bags.mode == BagMode::kMean && counted > 0) {
    for (size_t k = 0; k < columns; ++k) result[k] /= static_cast<double>(counted);
  }
  return EE_OK;
}

template <class Table>
ee_status BagReference(const Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                       const Output& out, double* scratch, size_t* bad_position) {
  const size_t columns = Columns(table);
  for (size_t bag = begin; bag < end; ++bag) {
    const size_t first = static_cast<size_t>(Load<int64_t>(bags.offsets, bag));
    const size_t last = static_cast<size_t>(Load<int64_t>(bags.offsets, bag + 1));
    const ee_status status =
        ReduceBag(table, ids, bags, first, last, scratch, scratch + columns, bad_position);
    if (status != EE_OK) return status;
    Narrow(scratch, columns, out.data, out.type, bag * columns);
  }
  return EE_OK;
}

template <class Table>
ee_status LogitsReference(const Table& table, const LogitsInput& input, size_t begin, size_t end,
                          const LogitsOutput& logits, double* scratch, size_t* bad_position) {
  const size_t columns = Columns(table);
  double* row = scratch;
  for (size_t id = begin; id < end; ++id) {
    const ee_status status = ReadCheckedRow(table, static_cast<int64_t>(id), row, scratch + columns);
    if (status != EE_OK) {
      *bad_position = id;
      return status;
    }
    for (size_t b = 0; b < input.batch; ++b) {
      const double logit = Dot(input.hidden + b * columns, row, columns);
      Narrow(&logit, 1, logits.out.data, logits.out.type, logits.At(b, id));
    }
  }
  return EE_OK;
}

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_REFERENCE_H_
