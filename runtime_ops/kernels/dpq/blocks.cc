#include "kernels/dpq/blocks.h"

namespace edge_embed::dpq {
namespace {

uint64_t BytesOfRow(const Table& table) {
  uint64_t row_bytes = 0;
  RowBytes(table.num_groups, table.bits, &row_bytes);
  return row_bytes;
}

uint64_t WordsOfRow(const Table& table) { return (BytesOfRow(table) + kWordBytes - 1) / kWordBytes; }

}  // namespace

Size BlocksBytes(const Table& table) {
  if (table.bits != kBlockedBits) return 0;
  const uint64_t blocks = (static_cast<uint64_t>(table.num_embeddings) + kBlockedRows - 1) / kBlockedRows;
  return Size(blocks) * WordsOfRow(table) * kBlockedRows * kWordBytes;
}

void MakeBlocks(const Table& table, unsigned char* blocks) {
  const size_t row_bytes = static_cast<size_t>(BytesOfRow(table));
  const size_t words = static_cast<size_t>(WordsOfRow(table)), step = kBlockedRows * kWordBytes;
  __builtin_memset(blocks, 0, static_cast<size_t>(BlocksBytes(table).saturated()));
  const unsigned char* row = table.codes;
  for (size_t i = 0; i < static_cast<size_t>(table.num_embeddings); ++i, row += row_bytes) {
    unsigned char* to = blocks + i / kBlockedRows * words * step + i % kBlockedRows * kWordBytes;
    size_t byte = 0;
    for (; byte + kWordBytes <= row_bytes; byte += kWordBytes, to += step) {
      __builtin_memcpy(to, row + byte, kWordBytes);
    }
    __builtin_memcpy(to, row + byte, row_bytes - byte);
  }
}

}  // namespace edge_embed::dpq
