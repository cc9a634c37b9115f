// Codes of four bits in the order in which output layers read them: in blocks of sixteen rows. The words of a
// block are contiguous, as a vector requires.
//
//   word[i / 16][k][i % 16] = bytes 4k .. 4k+3 of row i          k = 0 .. ceil(row_bytes / 4) - 1
//
// Missing rows and bytes are zeros. Blocks are made from the codes, in memory only, and used beside them:
// with blocks, a gather of random rows would read a cache line for every word.
#ifndef EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_
#define EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_

#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq {

constexpr size_t kBlockedBits = 4;
constexpr size_t kBlockedRows = 16;
constexpr size_t kWordBytes = 4;

// Bytes of the blocks; 0 for codes of other than four bits.
Size BlocksBytes(const Table& table);

// Writes all blocks, BlocksBytes() bytes at any alignment; that of a cache line is fastest.
void MakeBlocks(const Table& table, unsigned char* blocks);

}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_
