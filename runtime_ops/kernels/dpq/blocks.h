// Codes of four bits in the order in which heads read them: in blocks of sixteen rows, whose words follow one
// another as a vector wants them.
//
//   word[i / 16][k][i % 16] = bytes 4k .. 4k+3 of row i          k = 0 .. ceil(row_bytes / 4) - 1
//
// Rows and bytes that a table has not are zeros. Blocks are made out of the codes, in memory only, and used
// beside them: a gather of random rows would read a cache line for every word.
#ifndef EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_
#define EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_

#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq {

constexpr size_t kBlockedBits = 4;
constexpr size_t kBlockedRows = 16;
constexpr size_t kWordBytes = 4;

// 0 where codes have other bits.
Size BlocksBytes(const Table& table);

// Writes them all, to BlocksBytes() bytes at any alignment; best is that of a cache line.
void MakeBlocks(const Table& table, unsigned char* blocks);

}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_BLOCKS_H_
