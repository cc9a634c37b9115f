/* C interface of the edge-embed operator library: lookups, bags, logits and top-k without an inference
 * runtime.
 *
 * No function allocates, prints, throws or keeps a pointer. All functions are thread-safe.
 * Compare ee_version() with the version of the package that this header is from.
 *
 * Set every struct to zero before you set its fields. Tables stay owned by the caller and may have any
 * alignment. Numbers are little-endian.
 *
 * Every buffer has a length in bytes. If a buffer is too short, the function returns an error and writes
 * nothing. Functions that return ee_status return EE_OK (0) on success. Every function with a table also
 * returns the errors of ee_check, and EE_NULL_POINTER for a null pointer to data that it reads or writes. */
#ifndef EDGE_EMBED_C_API_EDGE_EMBED_H_
#define EDGE_EMBED_C_API_EDGE_EMBED_H_

#include <stddef.h>
#include <stdint.h>

/* Relative to this file, because packages put the headers into another folder. */
#include "../kernels/export.h"
#include "../kernels/limits.h"
#include "../kernels/status.h"
#include "../kernels/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a union without a name, which C99 lacks and all compilers have. */
#if defined(__GNUC__)
#define EE_UNNAMED __extension__
#else
#define EE_UNNAMED
#endif

/* Returns the package version, such as "0.1.0". */
EE_API const char* ee_version(void);

/* Returns the instruction set of the selected kernels, such as "avx2". It is the best one of the processor,
 * or the one that the environment variable EDGE_EMBED_FORCE_ISA names. The first call selects it.
 * If the variable names one that does not run here, every function with a table returns EE_BAD_ISA.
 * Freestanding builds do not read the variable. */
EE_API const char* ee_isa(void);

/* ee_isa_name returns the name of instruction set `index` of this library, best first, or null if there are
 * no more. ee_isa_runs returns 1 if the processor supports it, else 0. */
EE_API const char* ee_isa_name(int32_t index);
EE_API int32_t ee_isa_runs(int32_t index);

/* Returns the name of method `index` of this library, such as "dpq", or null if there are no more. The name
 * "entmax" stands for the operators of sparse activations, which only ONNX Runtime calls. */
EE_API const char* ee_method_name(int32_t index);

/* Returns an English sentence for an ee_status. It is never null, also for an unknown value. */
EE_API const char* ee_status_message(int32_t status);

/* A DPQ table in the packed form. A row has num_groups * group_width numbers. kernels/dpq/dpq.h states the
 * formula and the bit layout. */
typedef struct ee_dpq_table {
  const uint8_t* codes;      /* uint8 [num_embeddings, ceil(num_groups * bits / 8)] */
  size_t codes_bytes;        /* readable bytes at codes; too few: EE_SHORT_CODES */
  const void* values;        /* codebook, [shared ? 1 : num_groups, num_codes, group_width] */
  size_t values_bytes;       /* readable bytes at values; too few: EE_SHORT_VALUES */
  const void* value_scales;  /* float32 [shared ? 1 : num_groups], for int8 values only */
  size_t value_scales_bytes; /* readable bytes at value_scales; too few: EE_SHORT_VALUE_SCALES */
  int64_t num_embeddings;    /* number of rows, at least 1 */
  int64_t num_codes;         /* codes of a group, EE_MIN_CODES to EE_MAX_CODES; else EE_BAD_NUM_CODES */
  int64_t num_groups;        /* groups of a row, at least 1 */
  int64_t group_width;       /* numbers of a group, at least 1 */
  int64_t padding_idx;       /* row that is read as +0.0; -1: none */
  int32_t bits;              /* bits of a code, ceil(log2(num_codes)); else EE_BAD_BITS */
  int32_t shared;            /* 1: all groups share one codebook; 0: each group has its own */
  int32_t value_type;        /* an ee_type: EE_FLOAT32, EE_FLOAT16 or EE_INT8 */
  const void* blocks;        /* prepacked codes of ee_prepare; null: none */
  size_t blocks_bytes;       /* readable bytes at blocks, 0: none; too few: EE_SHORT_BLOCKS */
} ee_dpq_table;

/* A DPQ table whose rows have scales, or whose last group is narrower. A row has num_groups * group_width -
 * unused_columns numbers. kernels/dpq_scaled/dpq_scaled.h states the formula. Scale codes are checked when a
 * row is read. */
typedef struct ee_dpq_scaled_table {
  ee_dpq_table plain;             /* all columns, without scales; blocks are ignored */
  const uint8_t* row_scale_codes; /* uint8 [num_embeddings]; may be null if num_row_scales is 0 */
  size_t row_scale_codes_bytes;   /* readable bytes at row_scale_codes; too few: EE_SHORT_ROW_SCALE_CODES */
  const void* row_scales;         /* float32 [num_row_scales]; may be null if num_row_scales is 0 */
  size_t row_scales_bytes;        /* readable bytes at row_scales; too few: EE_SHORT_ROW_SCALES */
  int64_t num_row_scales; /* number of scales, 0 (none) to EE_MAX_ROW_SCALES; else EE_BAD_NUM_ROW_SCALES */
  int64_t unused_columns; /* columns at the end that rows lack, 0 to group_width - 1; else
                             EE_BAD_UNUSED_COLUMNS */
} ee_dpq_scaled_table;

/* An ANT table in the packed form, with the weights as a CSR matrix. A row has embedding_dim numbers.
 * kernels/ant/ant.h states the formula. Contents of row_offsets and anchor_ids are checked when a row is
 * read. */
typedef struct ee_ant_table {
  const void* row_offsets;  /* int32 [num_embeddings + 1] */
  size_t row_offsets_bytes; /* readable bytes at row_offsets; too few: EE_SHORT_ROW_OFFSETS */
  const void* anchor_ids;   /* [num_weights]; may be null if num_weights is 0 */
  size_t anchor_ids_bytes;  /* readable bytes at anchor_ids; too few: EE_SHORT_ANCHOR_IDS */
  const void* weights;      /* [num_weights]; may be null if num_weights is 0 */
  size_t weights_bytes;     /* readable bytes at weights; too few: EE_SHORT_WEIGHTS */
  const void* anchors;      /* [num_anchors, embedding_dim] */
  size_t anchors_bytes;     /* readable bytes at anchors; too few: EE_SHORT_ANCHORS */
  int64_t num_embeddings;   /* number of rows, at least 1 */
  int64_t num_weights;      /* number of weights of all rows, at least 0 */
  int64_t num_anchors;      /* number of anchors, at least 1 */
  int64_t embedding_dim;    /* numbers of a row and of an anchor, at least 1 */
  int64_t padding_idx;      /* row that is read as +0.0; -1: none */
  float weight_scale;       /* factor of every weight; 1 unless the weights are int8 */
  int32_t anchor_id_type;   /* an ee_type: EE_UINT8, EE_UINT16 or EE_UINT32 */
  int32_t weight_type;      /* an ee_type: EE_FLOAT32, EE_FLOAT16 or EE_INT8 */
  int32_t anchor_type;      /* an ee_type: EE_FLOAT32 or EE_FLOAT16 */
} ee_ant_table;

/* A core of a TT or TR table, in C order. Every size is at least 1. */
typedef struct ee_tt_core {
  const void* data; /* [rows, rank_in, columns, rank_out] */
  size_t bytes;     /* readable bytes at data; too few: EE_SHORT_CORE */
  int64_t rows;     /* values of the digit of an id that this core reads */
  int64_t rank_in;  /* rank_out of the previous core, of the last core for the first; else EE_BAD_RANKS */
  int64_t columns;  /* this core's factor of the numbers of a row */
  int64_t rank_out; /* rank_in of the next core; 1 for the last core of TT, the rank of the ring for TR */
} ee_tt_core;

/* A TT or TR table in the packed form. The product of the columns of all cores is the number of columns of a
 * row. kernels/tt/tt.h states the formula. */
typedef struct ee_tt_table {
  ee_tt_core cores[EE_MAX_CORES]; /* the first num_cores are used */
  int64_t num_cores;              /* EE_MIN_CORES to EE_MAX_CORES; else EE_BAD_NUM_CORES */
  int64_t num_embeddings;         /* rows, 1 to the product of rows of all cores; else EE_FEW_CORE_ROWS */
  int64_t padding_idx;            /* row that is read as +0.0; -1: none */
  int32_t core_type;              /* an ee_type: EE_FLOAT32 or EE_FLOAT16 */
} ee_tt_table;

/* A tiered table: three tiers, from many bits for frequent rows to few for rare ones. kernels/tiered/tiered.h
 * states the formula. The tier and the place of a row are checked when the row is read. */
typedef struct ee_tiered_table {
  const ee_dpq_scaled_table* tiers; /* [EE_NUM_TIERS], of equal columns, without padding rows, and of
                                       num_embeddings rows in all; else EE_BAD_TIERS */
  size_t tiers_bytes;               /* readable bytes at tiers; too few: EE_BAD_SHAPE */
  const uint8_t* tier_map; /* uint8 [blocks, 64] of blocks of 256 rows; null: the first rows are those of tier
                              0, the next ones those of tier 1, and the last ones those of tier 2 */
  size_t tier_map_bytes;   /* readable bytes at tier_map; too few: EE_SHORT_TIER_MAP */
  const void* tier_ranks;  /* int32 [blocks, EE_NUM_TIERS]; may be null without tier_map */
  size_t tier_ranks_bytes; /* readable bytes at tier_ranks; too few: EE_SHORT_TIER_RANKS */
  int64_t num_embeddings;  /* number of rows, at most 2147483647 */
  int64_t padding_idx;     /* row that is read as +0.0; -1: none */
} ee_tiered_table;

/* Compression methods. Values are part of the ABI: append, never renumber. 0, the value of a zeroed struct,
 * is no method. */
typedef enum ee_method { EE_DPQ = 1, EE_ANT = 2, EE_TT = 3, EE_DPQ_SCALED = 4, EE_TIERED = 5 } ee_method;

/* Version of the structs of this header. It increases with every change of a struct, so that the library can
 * refuse a caller that was compiled with another header. */
#define EE_TABLE_VERSION 1

/* A table of any method. `method` selects the member of the union. */
typedef struct ee_table {
  int32_t version; /* EE_TABLE_VERSION; else EE_BAD_VERSION */
  int32_t method;  /* an ee_method that this library was built with; else EE_BAD_METHOD */
  EE_UNNAMED union {
    ee_dpq_table dpq;
    ee_ant_table ant;
    ee_tt_table tt;
    ee_dpq_scaled_table dpq_scaled;
    ee_tiered_table tiered;
  };
} ee_table;

/* Ids of rows, each at least 0 and below num_embeddings. */
typedef struct ee_ids {
  const void* data; /* [count], at any alignment; may be null if count is 0 */
  int64_t count;    /* number of ids, at least 0 */
  int32_t type;     /* an ee_type: EE_INT32 or EE_INT64; else EE_BAD_TYPE */
} ee_ids;

/* Bags of ids. Bag b contains the ids at positions offsets[b] to offsets[b+1]-1. Ids equal to padding_idx are
 * skipped, also in the count of a mean. A bag without other ids is zero. */
typedef struct ee_bags {
  const int64_t*
      offsets;      /* [num_bags + 1], from 0 to the number of ids, never decreasing; else EE_BAD_OFFSETS */
  int64_t num_bags; /* number of bags, at least 0 */
  const float* sample_weights; /* [number of ids], with mode 0 only; null: all are 1 */
  int32_t mode;                /* 0 sum, 1 mean, 2 maximum; else EE_BAD_MODE */
} ee_bags;

/* Output of ee_topk: the k largest logits of each state, in descending order, equal logits by lowest row. */
typedef struct ee_best {
  int64_t k;           /* 1 to EE_MAX_K, and at most num_embeddings; else EE_BAD_K */
  const float* bias;   /* [num_embeddings], added to the logits; null: none */
  float* values;       /* [batch, k]: the logits */
  size_t values_bytes; /* writable bytes at values; too few: EE_SHORT_OUTPUT */
  int64_t* ids;        /* [batch, k]: their rows */
  size_t ids_bytes;    /* writable bytes at ids; too few: EE_SHORT_OUTPUT */
} ee_best;

/* Checks the sizes, types and buffer lengths of a table. It reads no contents, except the place of the
 * padding row of a tiered table, so it needs nanoseconds for any size. Every function below makes the same
 * check.
 *
 * Errors: EE_NULL_POINTER, EE_BAD_VERSION, EE_BAD_ISA, EE_BAD_METHOD, EE_BAD_SHAPE, EE_BAD_TYPE,
 * EE_BAD_PADDING, EE_SIZE_OVERFLOW, and the errors of the fields in the structs above. */
EE_API ee_status ee_check(const ee_table* table);

/* Uses of a table: each is the function of this name below. */
typedef enum ee_use { EE_GATHER = 0, EE_BAG = 1, EE_LOGITS = 2, EE_TOPK = 3 } ee_use;

/* Writes the bytes of the scratch buffer of a use to *bytes. They suffice for any number of ids or states.
 *
 * A scratch buffer must be aligned for double, and each calling thread needs its own. If *bytes is 0, the
 * scratch may be null. `k` is read for EE_TOPK only. On an error, *bytes stays unchanged.
 *
 * Errors: EE_BAD_USE, EE_BAD_K, EE_SIZE_OVERFLOW. */
EE_API ee_status ee_scratch_bytes(const ee_table* table, int32_t use, int64_t k, size_t* bytes);

/* Looks up rows: rows[i, :] = row ids[i] of the table.
 *
 * rows is float32 [number of ids, columns]; it may be null if there are no ids. Rows of DPQ are bit-exact.
 * Rows of other methods are within the bound of kernels/use.h.
 *
 * Errors: EE_SHORT_OUTPUT, EE_SHORT_SCRATCH, EE_BAD_SHAPE and EE_BAD_TYPE for ids, EE_ID_OUT_OF_RANGE, for
 * a damaged row of ANT EE_BAD_ROW_OFFSETS, EE_LONG_ROW or EE_BAD_ANCHOR_ID, for one with row scales
 * EE_BAD_ROW_SCALE_CODE, and for one of a tiered table EE_BAD_TIER_PLACE. For a wrong id or a damaged row,
 * *bad_position is the index in ids of the first one, and only the rows before it are written. In every other
 * case *bad_position is -1. bad_position may be null. */
EE_API ee_status ee_gather(const ee_table* table, const ee_ids* ids, float* rows, size_t rows_bytes,
                           void* scratch, size_t scratch_bytes, int64_t* bad_position);

/* Reduces bags of rows: out[b, :] = sum, mean or maximum of the rows of bag b.
 *
 * out is float32 [num_bags, columns]; it may be null if there are no bags. Errors are those of ee_gather,
 * EE_BAD_MODE and EE_BAD_OFFSETS. For a wrong id or a damaged row, *bad_position is its index in ids, and
 * only the bags before its bag are written. For EE_BAD_OFFSETS, *bad_position is the index of the first wrong
 * offset, and nothing is written. */
EE_API ee_status ee_bag(const ee_table* table, const ee_ids* ids, const ee_bags* bags, float* out,
                        size_t out_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_position);

/* Computes logits: logits[b, i] = sum over c of hidden[b, c] * row i of the table [c].
 *
 * hidden is float32 [batch, columns], and logits is float32 [batch, num_embeddings]; batch may be 0.
 *
 * Errors: EE_BAD_SHAPE for a negative batch, EE_SHORT_OUTPUT, EE_SHORT_SCRATCH, and those of a damaged
 * row. For a damaged row, *bad_row is its index, and only the columns of logits before it are written. In
 * every other case *bad_row is -1. bad_row may be null. */
EE_API ee_status ee_logits(const ee_table* table, const float* hidden, int64_t batch, float* logits,
                           size_t logits_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_row);

/* Finds the k largest of logits plus bias, without all logits in memory. NaN counts as the largest value.
 *
 * hidden is float32 [batch, columns]; batch may be 0. Errors are those of ee_logits, and EE_BAD_K. For a
 * damaged row, *bad_row is its index, and the contents of values and ids are undefined. In every other case
 * *bad_row is -1. bad_row may be null. */
EE_API ee_status ee_topk(const ee_table* table, const float* hidden, int64_t batch, const ee_best* best,
                         void* scratch, size_t scratch_bytes, int64_t* bad_row);

/* Writes the memory that ee_prepare needs to *bytes and *scratch_bytes. Preparation uses memory to make a
 * table faster:
 *
 *   TT    the product of the last cores (kernels/tt/merge.h): fewer products for rows and bags
 *   DPQ   a second copy of the codes, in an order that is faster for logits and top-k (kernels/dpq/blocks.h)
 *
 * *bytes is the most useful size of at most `most_bytes`. It is 0 if nothing is gained: for other methods,
 * for DPQ with other than 4 bits, for few rows, and on processors without the instructions. *scratch_bytes is
 * needed only during the call of ee_prepare. On an error, both stay unchanged.
 *
 * Errors: EE_SIZE_OVERFLOW. */
EE_API ee_status ee_prepare_bytes(const ee_table* table, size_t most_bytes, size_t* bytes,
                                  size_t* scratch_bytes);

/* Prepares a table in `memory`, and writes the faster table to *prepared, which may be `table` itself.
 *
 * The prepared table has the same rows, for TT within rounding, and is valid for every function. It points
 * into `memory` and into the data of `table`, so keep both. `memory` may have any alignment; that of a cache
 * line is fastest. `bytes` and `scratch_bytes` are those of ee_prepare_bytes, and the scratch must be aligned
 * for double. If `bytes` is too small for any gain, *prepared is a copy of `table`.
 *
 * Errors: EE_SHORT_SCRATCH. On an error, *prepared stays unchanged. */
EE_API ee_status ee_prepare(const ee_table* table, void* memory, size_t bytes, void* scratch,
                            size_t scratch_bytes, ee_table* prepared);

#ifdef __cplusplus
}
#endif

#endif /* EDGE_EMBED_C_API_EDGE_EMBED_H_ */
