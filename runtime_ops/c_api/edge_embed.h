/* C ABI of the edge-embed operator library: for ctypes, for tests, for apps without an inference runtime.
 *
 * No function allocates, prints, throws or keeps a pointer; all may be called from several threads at once.
 * A caller compares ee_version() with the version of the package or header that it was built with. */
#ifndef EDGE_EMBED_C_API_EDGE_EMBED_H_
#define EDGE_EMBED_C_API_EDGE_EMBED_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

#define EE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The package version, such as "0.1.0". */
EE_API const char* ee_version(void);

/* One English sentence for an ee_status; never null, also for an unknown value. */
EE_API const char* ee_status_message(int32_t status);

/* A DPQ table in the packed form (kernels/dpq/dpq.h has the formula and the bit layout). The buffers stay the
 * caller's and may lie at any alignment. */
typedef struct ee_dpq_table {
  const uint8_t* codes;   /* uint8 [num_embeddings, ceil(num_groups * bits / 8)] */
  size_t codes_bytes;     /* readable bytes at codes; too few is EE_SHORT_CODES */
  const void* values;     /* little-endian float32 [shared ? 1 : num_groups, num_codes, group_width] */
  size_t values_bytes;    /* readable bytes at values; too few is EE_SHORT_VALUES */
  int64_t num_embeddings; /* rows, at least 1 */
  int64_t num_codes;      /* codes per group, 2 .. 65536 */
  int64_t num_groups;     /* groups of a row, at least 1 */
  int64_t group_width;    /* float32 values of a group, at least 1 */
  int64_t padding_idx;    /* this row comes out as exactly +0.0; -1: none */
  int32_t bits;           /* ceil(log2(num_codes)) */
  int32_t shared;         /* not 0: every group uses the same values */
} ee_dpq_table;

/* rows[i, :] = row ids[i] of the table, float32 [num_ids, num_groups * group_width], bit-exact.
 *
 * num_ids may be 0 (ids and rows may then be null). rows_bytes is the size of the output buffer; rows must be
 * aligned for float. On EE_ID_OUT_OF_RANGE, *bad_position (where not null) is the index in ids of the first
 * bad id, and only the rows before it are written; in every other case *bad_position is -1, and on every
 * other error nothing is written. */
EE_API ee_status ee_dpq_gather_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids,
                                       float* rows, size_t rows_bytes, int64_t* bad_position);
EE_API ee_status ee_dpq_gather_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids,
                                       float* rows, size_t rows_bytes, int64_t* bad_position);

#ifdef __cplusplus
}
#endif

#endif /* EDGE_EMBED_C_API_EDGE_EMBED_H_ */
