/* C ABI of the edge-embed operator library: for ctypes, for tests, for apps without an inference runtime.
 *
 * No function allocates, prints, throws or keeps a pointer; all may be called from several threads at once.
 * A caller compares ee_version() with the version of the package or header that it was built with.
 *
 * Numbers are little-endian, tables stay the caller's and may lie at any alignment. Every struct is to be
 * zeroed before its fields are set. Every buffer comes with its length in bytes; a short one is an error, and
 * then nothing is written. */
#ifndef EDGE_EMBED_C_API_EDGE_EMBED_H_
#define EDGE_EMBED_C_API_EDGE_EMBED_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/limits.h"
#include "kernels/status.h"
#include "kernels/type.h"

#define EE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The package version, such as "0.1.0". */
EE_API const char* ee_version(void);

/* The instruction set whose kernels run here, such as "avx2": the best that the processor has, or the one
 * that the environment variable EDGE_EMBED_FORCE_ISA names. Found out once; not read where there is no libc.
 */
EE_API const char* ee_isa(void);

/* Those that this library has kernels for, best first; null from the last one on. Whether the processor has
 * it. */
EE_API const char* ee_isa_name(int32_t index);
EE_API int32_t ee_isa_runs(int32_t index);

/* The methods that were built into this library, such as "dpq"; null from the last one on. */
EE_API const char* ee_method_name(int32_t index);

/* One English sentence for an ee_status; never null, also for an unknown value. */
EE_API const char* ee_status_message(int32_t status);

/* A DPQ table in the packed form (kernels/dpq/dpq.h has the formula and the bit layout). A row has
 * num_groups * group_width numbers. */
typedef struct ee_dpq_table {
  const uint8_t* codes;      /* uint8 [num_embeddings, ceil(num_groups * bits / 8)] */
  size_t codes_bytes;        /* readable bytes at codes; too few is EE_SHORT_CODES */
  const void* values;        /* [shared ? 1 : num_groups, num_codes, group_width] */
  size_t values_bytes;       /* readable bytes at values; too few is EE_SHORT_VALUES */
  const void* value_scales;  /* float32 [shared ? 1 : num_groups], where values are int8 */
  size_t value_scales_bytes; /* readable bytes there; too few is EE_SHORT_VALUE_SCALES */
  int64_t num_embeddings;    /* rows, at least 1 */
  int64_t num_codes;         /* codes per group, EE_MIN_CODES .. EE_MAX_CODES */
  int64_t num_groups;        /* groups of a row, at least 1 */
  int64_t group_width;       /* values of a group, at least 1 */
  int64_t padding_idx;       /* this row comes out as exactly +0.0; -1: none */
  int32_t bits;              /* ceil(log2(num_codes)) */
  int32_t shared;            /* not 0: every group uses the same values */
  int32_t value_type;        /* an ee_type: EE_FLOAT32, EE_FLOAT16 or EE_INT8 */
  const void* blocks;        /* the codes once more, of ee_prepare; null: none */
  size_t blocks_bytes;       /* readable bytes there, 0: none; too few is EE_SHORT_BLOCKS */
} ee_dpq_table;

/* An ANT table in the packed form (kernels/ant/ant.h has the formula). A row has embedding_dim numbers. What
 * row_offsets and anchor_ids hold is checked for every row that is used. */
typedef struct ee_ant_table {
  const void* row_offsets;  /* int32 [num_embeddings + 1] */
  size_t row_offsets_bytes; /* readable bytes there; too few is EE_SHORT_ROW_OFFSETS */
  const void* anchor_ids;   /* [num_weights]; may be null where num_weights is 0 */
  size_t anchor_ids_bytes;  /* readable bytes there; too few is EE_SHORT_ANCHOR_IDS */
  const void* weights;      /* [num_weights]; may be null where num_weights is 0 */
  size_t weights_bytes;     /* readable bytes there; too few is EE_SHORT_WEIGHTS */
  const void* anchors;      /* [num_anchors, embedding_dim] */
  size_t anchors_bytes;     /* readable bytes there; too few is EE_SHORT_ANCHORS */
  int64_t num_embeddings;   /* rows, at least 1 */
  int64_t num_weights;      /* weights of all rows together */
  int64_t num_anchors;      /* at least 1 */
  int64_t embedding_dim;    /* at least 1 */
  int64_t padding_idx;      /* this row comes out as exactly +0.0; -1: none */
  float weight_scale;       /* every weight is multiplied by it; 1 unless the weights are int8 */
  int32_t anchor_id_type;   /* an ee_type: EE_UINT8, EE_UINT16 or EE_UINT32 */
  int32_t weight_type;      /* an ee_type: EE_FLOAT32, EE_FLOAT16 or EE_INT8 */
  int32_t anchor_type;      /* an ee_type: EE_FLOAT32 or EE_FLOAT16 */
} ee_ant_table;

/* One core of a TT or TR table, in C order. */
typedef struct ee_tt_core {
  const void* data; /* [rows, rank_in, columns, rank_out] */
  size_t bytes;     /* readable bytes there; too few is EE_SHORT_CORE */
  int64_t rows;
  int64_t rank_in; /* rank_out of the core before; of the first one, that of the last */
  int64_t columns;
  int64_t rank_out;
} ee_tt_core;

/* A TT or TR table in the packed form (kernels/tt/tt.h has the formula). A row has as many numbers as the
 * product of the cores' columns. */
typedef struct ee_tt_table {
  ee_tt_core cores[EE_MAX_CORES]; /* the first num_cores count */
  int64_t num_cores;              /* EE_MIN_CORES .. EE_MAX_CORES */
  int64_t num_embeddings;         /* rows, at least 1 and at most the product of the cores' rows */
  int64_t padding_idx;            /* this row comes out as exactly +0.0; -1: none */
  int32_t core_type;              /* an ee_type: EE_FLOAT32 or EE_FLOAT16 */
} ee_tt_table;

/* Values are part of the ABI: append, never renumber. 0, which a zeroed struct has, is none. */
typedef enum ee_method { EE_DPQ = 1, EE_ANT = 2, EE_TT = 3 } ee_method;

/* Raised with every change of the structs below and above: a caller of another header is refused. */
#define EE_TABLE_VERSION 1

/* A table of any method. */
typedef struct ee_table {
  int32_t version; /* EE_TABLE_VERSION, else EE_BAD_VERSION */
  int32_t method;  /* an ee_method: which of the following it is; else EE_BAD_METHOD */
  union {
    ee_dpq_table dpq;
    ee_ant_table ant;
    ee_tt_table tt;
  };
} ee_table;

typedef struct ee_ids {
  const void* data; /* [count], at any alignment; may be null where count is 0 */
  int64_t count;    /* at least 0 */
  int32_t type;     /* an ee_type: EE_INT32 or EE_INT64 */
} ee_ids;

/* Bag b has the ids offsets[b] .. offsets[b+1]-1. Ids equal to padding_idx are skipped: they count neither in
 * a mean nor for a maximum. A bag of nothing is zero. */
typedef struct ee_bags {
  const int64_t* offsets;      /* [num_bags + 1]: begin with 0, never decrease, end with the number of ids */
  int64_t num_bags;            /* at least 0 */
  const float* sample_weights; /* [number of ids], with mode 0 only; null: all are 1 */
  int32_t mode;                /* 0 sum, 1 mean, 2 maximum */
} ee_bags;

/* Where the k largest logits of each state go, largest first and equal ones by lowest row. */
typedef struct ee_best {
  int64_t k;           /* 1 .. EE_MAX_K, at most the rows of the table */
  const float* bias;   /* [num_embeddings], added to the logits; null: none */
  float* values;       /* [batch, k]: the logits */
  size_t values_bytes; /* writable bytes there; too few is EE_SHORT_OUTPUT */
  int64_t* ids;        /* [batch, k]: their rows */
  size_t ids_bytes;    /* writable bytes there; too few is EE_SHORT_OUTPUT */
} ee_best;

/* EE_OK where every function below takes the table; the same few nanoseconds for any size, as no content is
 * read. Each of them checks it too. */
EE_API ee_status ee_check(const ee_table* table);

/* What a table is used for: the functions of these names below. */
typedef enum ee_use { EE_GATHER = 0, EE_BAG = 1, EE_LOGITS = 2, EE_TOPK = 3 } ee_use;

/* How much scratch a use of this table needs, for any number of ids or states, aligned for double; one buffer
 * for each thread that calls. It may be 0, and the scratch null. `k` counts for EE_TOPK alone. On an error
 * *bytes stays as it was, here and wherever bytes are told. */
EE_API ee_status ee_scratch_bytes(const ee_table* table, int32_t use, int64_t k, size_t* bytes);

/* rows[i, :] = row ids[i] of the table, float32 [number of ids, columns]; of DPQ bit-exact, else summed in
 * float64 and rounded once.
 *
 * There may be no ids (rows may then be null). On EE_ID_OUT_OF_RANGE, and for a row that is damaged
 * (EE_BAD_ROW_OFFSETS, EE_LONG_ROW, EE_BAD_ANCHOR_ID), *bad_position (where not null) is the index in ids of
 * the first bad id, and only the rows before it are written; in every other case *bad_position is -1. */
EE_API ee_status ee_gather(const ee_table* table, const ee_ids* ids, float* rows, size_t rows_bytes,
                           void* scratch, size_t scratch_bytes, int64_t* bad_position);

/* out[b, :] = bag b, float32 [num_bags, columns].
 *
 * As for gather, except that on a bad id out holds the bags before that id's. On EE_BAD_OFFSETS *bad_position
 * is the index of the first offset that is wrong, and nothing is written. */
EE_API ee_status ee_bag(const ee_table* table, const ee_ids* ids, const ee_bags* bags, float* out,
                        size_t out_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_position);

/* logits[b, i] = sum over c of hidden[b, c] * row i of the table [c], float32 [batch, num_embeddings].
 *
 * hidden is float32 [batch, columns]; batch may be 0. For a row that is damaged *bad_row (where not null) is
 * its index, and only the columns of logits before it are written; in every other case *bad_row is -1. */
EE_API ee_status ee_logits(const ee_table* table, const float* hidden, int64_t batch, float* logits,
                           size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row);

/* The k largest of what the function above gives, plus bias, without all of it in memory. What is not a
 * number counts as the largest.
 *
 * hidden is float32 [batch, columns]; batch may be 0. For a row that is damaged *bad_row (where not null) is
 * its index, and what values and ids hold is undefined; in every other case *bad_row is -1. */
EE_API ee_status ee_topk(const ee_table* table, const float* hidden, int64_t batch, const ee_best* best,
                         void* scratch, size_t scratch_bytes, int64_t* bad_row);

/* What is made of a table once and makes uses faster, for memory:
 *
 *   TT    the last cores multiplied in advance (kernels/tt/merge.h): fewer products for rows and bags
 *   DPQ   the codes once more, in an order that logits and top-k read faster (kernels/dpq/blocks.h)
 *
 * *bytes is how much memory serves best, of `most_bytes` at most; 0 where nothing is gained: other methods,
 * DPQ with other bits than 4, few rows, a processor without the instructions. *scratch_bytes is needed during
 * the call of ee_prepare only. */
EE_API ee_status ee_prepare_bytes(const ee_table* table, size_t most_bytes, size_t* bytes,
                                  size_t* scratch_bytes);

/* *prepared, which may be `table` itself, is a table with the same rows, of TT within rounding, and serves
 * wherever `table` does. It points into `memory`, of any alignment (a cache line's is best), and to what is
 * not made anew of `table`: both must stay. Makes what is best within `bytes`, which the function above tells
 * as well as the scratch for it, aligned for double; where nothing is gained within them, *prepared is
 * `table`. */
EE_API ee_status ee_prepare(const ee_table* table, void* memory, size_t bytes, void* scratch,
                            size_t scratch_bytes, ee_table* prepared);

#ifdef __cplusplus
}
#endif

#endif /* EDGE_EMBED_C_API_EDGE_EMBED_H_ */
