// Prepacked cores: the product of the last cores of a table, for all ids:
//
//   G'[i, :, :, :] = G_k[i_k, ...] @ ... @ G_N[i_N, ...],   i_k .. i_N the digits of i = 0 .. I' - 1
//
// It is a core itself, [I', R_{k-1}, J_k * ... * J_N, R_N] with I' = min(I_k * ... * I_N, n). A table with it
// has the same rows and needs fewer products. Its numbers are float32, summed in float64 and rounded once. If
// a number exceeds float32, the rows overflow too. Output layers gain nothing, because they multiply the last
// core with the state.
#ifndef EDGE_EMBED_KERNELS_TT_MERGE_H_
#define EDGE_EMBED_KERNELS_TT_MERGE_H_

#include "kernels/tt/tt.h"

namespace edge_embed::tt {

struct Merging {
  Table table;             // with fewer cores, in float32; the pointers to new cores are not set yet
  size_t bytes;            // bytes of the new cores; 0: nothing is gained, and Merge is not called
  size_t scratch_doubles;  // scratch of Merge
};

// The merging with the least work of a row, of those whose new cores need at most this number of bytes.
Merging BestMerging(const Table& table, uint64_t most_bytes);

// Writes the new cores to `memory`, at any alignment, and returns the table that uses them. Other float32
// cores stay in place. Other float16 cores are widened, because all cores of a table have one type.
Table Merge(const Table& table, const Merging& merging, void* memory, double* scratch);

}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_MERGE_H_
