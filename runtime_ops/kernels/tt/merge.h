// The last cores of a table, multiplied in advance and for all ids:
//
//   G'[i, :, :, :] = G_k[i_k, ...] @ ... @ G_N[i_N, ...],   i_k .. i_N the digits of i = 0 .. I' - 1
//
// is a core itself, [I', R_{k-1}, J_k * ... * J_N, R_N] with I' = min(I_k * ... * I_N, n), and a table with
// it has the same rows by fewer products. Its numbers are float32, summed in float64 and rounded once: where
// one of them is larger than float32 can hold, so are rows. Heads gain nothing, they multiply the last core
// with the state.
#ifndef EDGE_EMBED_KERNELS_TT_MERGE_H_
#define EDGE_EMBED_KERNELS_TT_MERGE_H_

#include "kernels/tt/tt.h"

namespace edge_embed::tt {

struct Merging {
  Table table;             // with fewer cores, in float32; where those lie that Merge makes is not in it yet
  size_t bytes;            // of the cores that Merge makes; 0: nothing is gained, and nothing is to be made
  size_t scratch_doubles;  // that Merge needs
};

// Of those whose cores take at most so many bytes, the one with the least work a row.
Merging BestMerging(const Table& table, uint64_t most_bytes);

// Makes the cores in `memory`, at any alignment, and gives the table that uses them. Cores of float32 that
// are not multiplied stay where they are, those of float16 are widened, as all cores of a table have one
// type.
Table Merge(const Table& table, const Merging& merging, void* memory, double* scratch);

}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_MERGE_H_
