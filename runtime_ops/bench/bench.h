/* C interface of the library of `edge-embed bench`: dense row copies as a baseline, loops over kernels
 * without Python between the calls, and the limits of the machine. No device needs it. */
#ifndef EDGE_EMBED_BENCH_BENCH_H_
#define EDGE_EMBED_BENCH_BENCH_H_

#include <stddef.h>
#include <stdint.h>

#include "c_api/edge_embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies rows: rows[i, :] = table[ids[i], :], `calls` times. ids is [calls, ids_a_call]; all calls write to
 * the same rows [ids_a_call, dim]. Lines are prefetched some rows ahead. */
EE_API void eb_copy_rows(const float* table, size_t dim, const int64_t* ids, size_t ids_a_call, size_t calls,
                         float* rows);

/* The same by ee_gather of c_api/edge_embed.h; `gather` is its address. Returns the first status that is not
 * EE_OK, else EE_OK. */
EE_API int32_t eb_gather(void* gather, const ee_table* table, const int64_t* ids, size_t ids_a_call,
                         size_t calls, float* rows, size_t rows_bytes, void* scratch, size_t scratch_bytes);

/* Reads a buffer `times` times. `bytes` is a multiple of 1,024, and the buffer is aligned to 64 bytes.
 * Returns a number that depends on the contents. */
EE_API float eb_read(const void* buffer, size_t bytes, size_t times);

/* Multiplies and adds in registers. Returns the number of operations, two for each pair. */
EE_API double eb_multiply_add(size_t rounds);

#ifdef __cplusplus
}
#endif

#endif  // EDGE_EMBED_BENCH_BENCH_H_
