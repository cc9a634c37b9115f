// DPQ with a scale for each row, or with a narrower last group:
//
//   rows[i] = row_scales[row_scale_codes[ids[i]]] * plain_row(ids[i])[: D*s - unused_columns]
//
// plain_row is the row of kernels/dpq/dpq.h as float32. The product is rounded once. A row of integers with a
// step is such a row: one column a group (s = 1), and the integers as the values of all groups.
//
// A scale code that is not below num_row_scales, which only a damaged table has, is an error of its row. The
// padding row is zero, and its scale is not read.
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_DPQ_SCALED_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_DPQ_SCALED_H_

#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq_scaled {

// The plain table, and what its rows have beside it.
struct Table : dpq::Table {
  const unsigned char* row_scale_codes;  // uint8 [num_embeddings]; ignored without scales
  size_t row_scale_codes_bytes;          // readable bytes at `row_scale_codes`
  const unsigned char* row_scales;       // float32 [num_row_scales], any alignment
  size_t row_scales_bytes;               // readable bytes at `row_scales`
  int64_t num_row_scales;                // S, 0 (none) .. EE_MAX_ROW_SCALES
  int64_t unused_columns;                // columns at the end that are no part of a row; fewer than s

  const dpq::Table& plain() const { return *this; }
  bool has_scales() const { return num_row_scales > 0; }
};

// Returns EE_OK if the plain table is valid and every index of a use stays inside the buffers, except for
// scale codes. All functions below require a table that passed it.
ee_status Validate(const Table& table);

// d = D*s - unused_columns
__attribute__((always_inline)) inline size_t Columns(const Table& table) {
  return dpq::Columns(table.plain()) - static_cast<size_t>(table.unused_columns);
}
uint64_t RowWork(const Table& table);     // copied values of a row
uint64_t LogitsWork(const Table& table);  // multiplications that cost as much as the logit of a row
Size RowScratch(const Table& table);      // doubles that ReadRow requires at `scratch`

// The scale of row `id`, 1 without scales. False if its code is not below num_row_scales.
inline bool ReadScale(const Table& table, size_t id, float* scale) {
  *scale = 1;
  if (!table.has_scales()) return true;
  const size_t code = table.row_scale_codes[id];
  if (code >= static_cast<size_t>(table.num_row_scales)) return false;
  *scale = Load<float>(table.row_scales, code);
  return true;
}

// Writes the d numbers of row `id`, which must be in range, as float32.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_DPQ_SCALED_H_
