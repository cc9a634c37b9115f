// DPQ, product-quantised embedding rows (Chen, Li, Sun: Differentiable Product Quantization, ICML 2020):
//
//   rows[i, j*s : (j+1)*s] = values[shared ? 0 : j, code_j(ids[i])]        j = 0 .. num_groups-1
//
// code_j(id) is bits [j*b, (j+1)*b) of row `id` of the codes, read as one little-endian bit string (bit 0 is
// the lowest bit of byte 0). b = bits = ceil(log2(num_codes)); a row has ceil(num_groups*b/8) bytes.
// A code beyond num_codes-1, which only a damaged table has, counts as num_codes-1.
//
// Everything here works on raw pointers: no runtime, no exceptions, no allocation, no libc.
#ifndef EDGE_EMBED_KERNELS_DPQ_DPQ_H_
#define EDGE_EMBED_KERNELS_DPQ_DPQ_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables are stored little-endian and used in place");

namespace edge_embed::dpq {

constexpr int64_t kNoPadding = -1;
constexpr int64_t kMaxNumCodes = 65536;

// A table that lies wherever the caller keeps it; nothing is copied or owned.
struct Table {
  const unsigned char* codes;   // uint8 [num_embeddings, row_bytes]
  size_t codes_bytes;           // readable bytes at `codes`
  const unsigned char* values;  // float32 [shared ? 1 : num_groups, num_codes, group_width], any alignment
  size_t values_bytes;          // readable bytes at `values`
  int64_t num_embeddings;       // n
  int64_t num_codes;            // K, 2 .. 65536
  int64_t num_groups;           // D
  int64_t group_width;          // s, floats per group; a row has D*s floats
  int64_t padding_idx;          // the row that is exactly +0.0 whatever is stored, or kNoPadding
  int bits;                     // b, 1 .. 16
  bool shared;                  // all groups use values[0]
};

// Bytes of one row of codes; false where num_groups or bits are out of their limits or the size overflows.
bool RowBytes(int64_t num_groups, int bits, uint64_t* row_bytes);

// Bytes of `num_ids` float32 rows; false on overflow. The table must be valid.
bool OutputBytes(const Table& table, uint64_t num_ids, size_t* bytes);

// EE_OK when every index that a gather can form stays inside the two buffers. Reads no table content, so it
// takes the same few nanoseconds for any size.
ee_status Validate(const Table& table);

// Writes rows begin .. end-1 of the output, `rows` being where row 0 starts; ids is the whole list. Id is
// int32_t or int64_t. The table must be valid and `rows` must hold OutputBytes(table, end) bytes.
// EE_ID_OUT_OF_RANGE: *bad_position is the index of the first bad id in the range; rows before it are
// written, the others are left alone. *bad_position is untouched otherwise.
template <typename Id>
ee_status GatherF32Reference(const Table& table, const Id* ids, size_t begin, size_t end, float* rows,
                             size_t* bad_position);

}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_DPQ_H_
