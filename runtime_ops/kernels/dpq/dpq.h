// DPQ, product-quantised embedding rows (Chen, Li, Sun: Differentiable Product Quantization, ICML 2020):
//
//   rows[i, j*s : (j+1)*s] = values[shared ? 0 : j, code_j(ids[i])]        j = 0 .. num_groups-1
//
// int8 values are multiplied by value_scales[shared ? 0 : j], in float32 and rounded once.
//
// code_j(id) is bits [j*b, (j+1)*b) of row `id` of the codes, read as one little-endian bit string (bit 0 is
// the lowest bit of byte 0). b = bits = ceil(log2(num_codes)), and a row has ceil(num_groups*b/8) bytes. A
// code above num_codes-1, which only a damaged table has, counts as num_codes-1.
//
// Everything here works on raw pointers: no runtime, no exceptions, no allocation, no libc.
#ifndef EDGE_EMBED_KERNELS_DPQ_DPQ_H_
#define EDGE_EMBED_KERNELS_DPQ_DPQ_H_

#include "kernels/limits.h"
#include "kernels/use.h"

namespace edge_embed::dpq {

// A table in memory of the caller; nothing is copied or owned.
struct Table {
  const unsigned char* codes;   // uint8 [num_embeddings, row_bytes]
  size_t codes_bytes;           // readable bytes at `codes`
  const unsigned char* values;  // [shared ? 1 : num_groups, num_codes, group_width], any alignment
  size_t values_bytes;          // readable bytes at `values`
  // float32 [shared ? 1 : num_groups], any alignment, for int8 values; ignored for other types
  const unsigned char* value_scales;
  size_t value_scales_bytes;  // readable bytes at `value_scales`
  // Prepacked codes for output layers (blocks.h), or null; used if bits are 4
  const unsigned char* blocks;
  size_t blocks_bytes;     // readable bytes at `blocks`
  int64_t num_embeddings;  // n
  int64_t num_codes;       // K, 2 .. 65536
  int64_t num_groups;      // D
  int64_t group_width;     // s, values per group; a row has D*s
  int64_t padding_idx;     // row that is read as +0.0, whatever is stored, or kNoPadding
  ee_type value_type;      // float32, float16 or int8
  int bits;                // b, 1 .. 16
  bool shared;             // all groups use values[0]
};

// Bytes of the codes of a row; false if num_groups or bits are outside their limits or the size overflows.
bool RowBytes(int64_t num_groups, int bits, uint64_t* row_bytes);

// Returns EE_OK if every index of a use stays inside the two buffers. It reads no table contents, so it needs
// nanoseconds for any size. All functions below require a table that passed it.
ee_status Validate(const Table& table);

size_t Columns(const Table& table);       // d = D*s
uint64_t RowWork(const Table& table);     // copied values of a row
uint64_t LogitsWork(const Table& table);  // multiplications that cost as much as the logit of a row
Size RowScratch(const Table& table);      // doubles that ReadRow requires at `scratch`

// out[k] = values[k] as float32, for values of a group, which point into table.values. Exact, except for one
// rounding of int8.
void WidenValues(const Table& table, size_t group, const unsigned char* values, size_t count,
                 unsigned char* out);

// Writes the d numbers of row `id`, which must be in range, as float32.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

}  // namespace edge_embed::dpq

namespace edge_embed {

// Copies bit by bit to an output of the type of the values, and widens float16 and int8 to float32. Other
// combinations are EE_BAD_TYPE. It needs no scratch.
template <>
ee_status GatherReference(const dpq::Table& table, const Ids& ids, size_t begin, size_t end,
                          const Output& rows, double* scratch, size_t* bad_position);

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_DPQ_DPQ_H_
