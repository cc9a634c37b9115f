// Tiered tables: three tiers, from many bits for frequent rows to few for rare ones. Each is a DPQ table.
//
//   rows[i]   = row of tier(ids[i]) at place(ids[i]), as float32
//   tier(id)  = code id % 256 of block id / 256 of the map, of 2 bits
//   place(id) = ranks[id / 256, tier(id)] + number of rows before id in its block that have its tier
//
// The rows of a tier are stored in the order of their ids, so consecutive ids are consecutive rows of each
// tier. Without a map, the first rows are those of tier 0, the next ones those of tier 1, and so on.
//
// A tier that does not exist and a place that its tier lacks, which only a damaged table has, are errors of
// their row.
#ifndef EDGE_EMBED_KERNELS_TIERED_TIERED_H_
#define EDGE_EMBED_KERNELS_TIERED_TIERED_H_

#include "kernels/dpq_scaled/dpq_scaled.h"

namespace edge_embed::tiered {

constexpr size_t kTiers = EE_NUM_TIERS;
constexpr size_t kBlockRows = 256;
constexpr size_t kBlockBytes = kBlockRows / 4;

struct Table {
  dpq_scaled::Table tiers[kTiers];
  const unsigned char* map;    // uint8 [blocks, kBlockBytes], or null
  size_t map_bytes;            // readable bytes at `map`
  const unsigned char* ranks;  // int32 [blocks, kTiers], any alignment; ignored without a map
  size_t ranks_bytes;          // readable bytes at `ranks`
  int64_t num_embeddings;      // n, the rows of all tiers
  int64_t padding_idx;         // row that is read as +0.0, whatever is stored, or kNoPadding
};

// A row of a tier. A damaged map has a fourth tier.
struct Place {
  size_t tier, row;
};

// The tier of row `id` of a map, 0 .. 3.
__attribute__((always_inline)) inline size_t TierOf(const unsigned char* map, size_t id) {
  return size_t{map[id / 4]} >> (id % 4 * 2) & 3;
}

// False if the tier of `id`, which must be in range, does not have it.
bool FindPlace(const Table& table, size_t id, Place* place);

// Returns EE_OK if all tiers are valid and every index of a use stays inside the buffers, except for places
// of rows. Only the place of the padding row is read. All functions below require a table that passed it.
ee_status Validate(const Table& table);

size_t Columns(const Table& table);       // d
uint64_t RowWork(const Table& table);     // copied values of a row
uint64_t LogitsWork(const Table& table);  // multiplications that cost as much as the logit of a row
Size RowScratch(const Table& table);      // doubles that ReadRow requires at `scratch`

// Writes the d numbers of row `id`, which must be in range, as float32.
ee_status ReadRow(const Table& table, size_t id, double* row, double* scratch);

}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_TIERED_H_
