// DPQ, product-quantised embedding rows (Chen, Li, Sun: Differentiable Product Quantization, ICML 2020):
//
//   rows[i, j*s : (j+1)*s] = values[shared ? 0 : j, code_j(ids[i])]        j = 0 .. num_groups-1
//
// Values that are int8 are multiplied by value_scales[shared ? 0 : j], in float32 and rounded once.
//
// code_j(id) is bits [j*b, (j+1)*b) of row `id` of the codes, read as one little-endian bit string (bit 0 is
// the lowest bit of byte 0). b = bits = ceil(log2(num_codes)); a row has ceil(num_groups*b/8) bytes.
// A code beyond num_codes-1, which only a damaged table has, counts as num_codes-1.
//
// Everything here works on raw pointers: no runtime, no exceptions, no allocation, no libc.
#ifndef EDGE_EMBED_KERNELS_DPQ_DPQ_H_
#define EDGE_EMBED_KERNELS_DPQ_DPQ_H_

#include "kernels/limits.h"
#include "kernels/use.h"

namespace edge_embed::dpq {

// A table that lies wherever the caller keeps it; nothing is copied or owned.
struct Table {
  const unsigned char* codes;   // uint8 [num_embeddings, row_bytes]
  size_t codes_bytes;           // readable bytes at `codes`
  const unsigned char* values;  // [shared ? 1 : num_groups, num_codes, group_width], any alignment
  size_t values_bytes;          // readable bytes at `values`
  // float32 [shared ? 1 : num_groups], any alignment, where values are int8; not looked at elsewhere
  const unsigned char* value_scales;
  size_t value_scales_bytes;  // readable bytes at `value_scales`
  // The codes once more as heads read them fastest (blocks.h), or null; looked at where bits are 4
  const unsigned char* blocks;
  size_t blocks_bytes;     // readable bytes at `blocks`
  int64_t num_embeddings;  // n
  int64_t num_codes;       // K, 2 .. 65536
  int64_t num_groups;      // D
  int64_t group_width;     // s, values per group; a row has D*s
  int64_t padding_idx;     // the row that is exactly +0.0 whatever is stored, or kNoPadding
  ee_type value_type;      // float32, float16 or int8
  int bits;                // b, 1 .. 16
  bool shared;             // all groups use values[0]
};

// Bytes of one row of codes; false where num_groups or bits are out of their limits or the size overflows.
bool RowBytes(int64_t num_groups, int bits, uint64_t* row_bytes);

// EE_OK when every index that a use can form stays inside the two buffers. Reads no table content, so it
// takes the same few nanoseconds for any size. Everything below expects a table that passed it.
ee_status Validate(const Table& table);

size_t Columns(const Table& table);     // d = D*s
uint64_t RowWork(const Table& table);   // copied values of a row
uint64_t HeadWork(const Table& table);  // multiplications that a row's logit takes as long as
Size RowScratch(const Table& table);    // doubles that ReadRow needs at `scratch`

// out[k] = values[k] as float32, for values of a group, which are some of those at table.values; exact but
// for the one rounding of int8.
void WidenValues(const Table& table, size_t group, const unsigned char* values, size_t count,
                 unsigned char* out);

// Writes the d numbers of row `id`, which is in range, as they are in float32.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

}  // namespace edge_embed::dpq

namespace edge_embed {

// Copies, bit by bit, into an output of the values' type; widens float16 and int8 for float32; another
// mixture is EE_BAD_TYPE. Needs no scratch.
template <>
ee_status GatherReference(const dpq::Table& table, const Ids& ids, size_t begin, size_t end,
                          const Output& rows, double* scratch, size_t* bad_position);

}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_DPQ_DPQ_H_
