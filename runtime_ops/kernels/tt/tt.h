// TT and TR, rows as products of small matrices (Hrinchuk et al.: Tensorized Embedding Layers, 2020;
// Oseledets: Tensor-Train Decomposition, 2011). Core k is G_k [I_k, R_{k-1}, J_k, R_k], k = 1 .. N:
//
//   row(i)[j] = trace(G_1[i_1, :, j_1, :] @ G_2[i_2, :, j_2, :] @ ... @ G_N[i_N, :, j_N, :])
//
// i_1 .. i_N are the digits of i in the mixed radix I_1 .. I_N, and i_1 is the most significant. j_1 .. j_N
// are those of the column in J_1 .. J_N. R_0 = R_N, which is 1 for TT (the trace of a 1x1 matrix is its
// number) and larger for TR.
//
// Everything here works on raw pointers: no runtime, no exceptions, no allocation, no libc.
#ifndef EDGE_EMBED_KERNELS_TT_TT_H_
#define EDGE_EMBED_KERNELS_TT_TT_H_

#include "kernels/limits.h"
#include "kernels/use.h"

namespace edge_embed::tt {

// A core in memory of the caller, at any alignment, in C order.
struct Core {
  const unsigned char* data;  // [rows, rank_in, columns, rank_out]
  size_t bytes;               // readable bytes at data
  int64_t rows;               // I_k
  int64_t rank_in;            // R_{k-1}
  int64_t columns;            // J_k
  int64_t rank_out;           // R_k
};

struct Table {
  Core cores[EE_MAX_CORES];  // the first num_cores are used
  int64_t num_cores;         // N
  int64_t num_embeddings;    // n; at most the product of all I_k
  int64_t padding_idx;       // row that is read as +0.0, whatever is stored, or kNoPadding
  ee_type core_type;         // float32 or float16
};

// Returns EE_OK if every index of a use stays inside the cores. It reads no contents of cores. All functions
// below require a table that passed it.
ee_status Validate(const Table& table);

size_t Columns(const Table& table);    // d, the product of all J_k
uint64_t RowWork(const Table& table);  // multiplications of a row
uint64_t LogitsWork(
    const Table& table);              // multiplications of the logit of a row: the last core times its state
Size RowScratch(const Table& table);  // doubles that ReadRow requires at `scratch`

// Writes the d numbers of row `id`, which must be in range.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

// The parts of RowScratch, for any sizes that are not negative. A state is a row between two cores, [J_1 *
// ... * J_k, R_k]. A slice is the part of a core that a row reads, [R_{k-1}, J_k * R_k].
Size StateDoubles(const Table& table);
Size SliceDoubles(const Table& table);

}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_TT_H_
