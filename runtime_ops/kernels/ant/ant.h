// ANT, rows as sparse sums of anchors (Liang, Zaheer, Wang, Ahmed: Anchor & Transform, ICLR 2021):
//
//   row(i) = weight_scale * sum over t in [row_offsets[i], row_offsets[i+1]) of weights[t] *
//   anchors[anchor_ids[t]]
//
// A row without weights is zero.
//
// Everything here works on raw pointers: no runtime, no exceptions, no allocation, no libc.
#ifndef EDGE_EMBED_KERNELS_ANT_ANT_H_
#define EDGE_EMBED_KERNELS_ANT_ANT_H_

#include "kernels/use.h"

namespace edge_embed::ant {

// A table in memory of the caller; nothing is copied or owned. Buffers may have any alignment.
struct Table {
  const unsigned char* row_offsets;  // int32 [num_embeddings + 1]
  size_t row_offsets_bytes;          // readable bytes at row_offsets
  const unsigned char*
      anchor_ids;  // uint8, uint16 or uint32 [num_weights]; may be null if there are no weights
  size_t anchor_ids_bytes;
  const unsigned char*
      weights;  // float32, float16 or int8 [num_weights]; may be null if there are no weights
  size_t weights_bytes;
  const unsigned char* anchors;  // float32 or float16 [num_anchors, embedding_dim]
  size_t anchors_bytes;
  int64_t num_embeddings;  // n
  int64_t num_weights;     // number of weights of all rows
  int64_t num_anchors;     // A
  int64_t embedding_dim;   // d
  int64_t padding_idx;     // row that is read as +0.0, whatever is stored, or kNoPadding
  ee_type anchor_id_type;
  ee_type weight_type;
  ee_type anchor_type;
  float weight_scale;
};

// Returns EE_OK if the buffers are as long as the sizes require. It reads no table contents, so it needs
// nanoseconds for any size. Each row is checked when it is read. All functions below require a table that
// passed it.
ee_status Validate(const Table& table);

size_t Columns(const Table& table);       // d
uint64_t RowWork(const Table& table);     // multiplications of an average row
uint64_t LogitsWork(const Table& table);  // multiplications of the logit of an average row
Size RowScratch(const Table& table);      // doubles that ReadRow requires at `scratch`

// Writes the d numbers of row `id`, which must be in range. EE_BAD_ROW_OFFSETS, EE_LONG_ROW or
// EE_BAD_ANCHOR_ID report a damaged row. The function never reads outside the buffers.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_ANT_H_
