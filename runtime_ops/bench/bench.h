/* What `edge-embed bench` needs in C++: a dense row copy to compare with, kernels called without Python
 * between the calls, and what the machine can do at most. A library of its own beside the operator library,
 * for measuring only. */
#ifndef EDGE_EMBED_BENCH_BENCH_H_
#define EDGE_EMBED_BENCH_BENCH_H_

#include <stddef.h>
#include <stdint.h>

#include "c_api/edge_embed.h"

#define EB_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* rows[i, :] = table[ids[i], :] for each of the calls, whose ids lie one after the other and whose rows in
 * the same place; lines are prefetched some rows ahead. */
EB_API void eb_copy_rows(const float* table, size_t dim, const int64_t* ids, size_t ids_a_call, size_t calls,
                         float* rows);

/* The same by ee_gather of c_api/edge_embed.h, whose address `gather` is, with the arguments of that. Gives
 * the first status that is not EE_OK. */
EB_API int32_t eb_gather(void* gather, const ee_table* table, const int64_t* ids, size_t ids_a_call,
                         size_t calls, float* rows, size_t rows_bytes, void* scratch, size_t scratch_bytes);

/* Reads a buffer of a multiple of 1,024 bytes, aligned to 64, several times over; gives a number that depends
 * on it. */
EB_API float eb_read(const void* buffer, size_t bytes, size_t times);

/* Multiplies and adds in registers; gives the number of operations, two for each pair. */
EB_API double eb_multiply_add(size_t rounds);

#ifdef __cplusplus
}
#endif

#endif  // EDGE_EMBED_BENCH_BENCH_H_
