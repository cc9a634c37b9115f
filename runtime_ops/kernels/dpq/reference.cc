// The plain gather: one group of one row at a time. Every faster kernel is tested against this one.
#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq {
namespace {

// Code `group` of one row. Touches only the bytes that hold its bits (at most three, as bits <= 16), so it
// never reads past the end of the row.
size_t CodeAt(const unsigned char* row, size_t group, size_t bits) {
  const size_t first_bit = group * bits;
  const size_t first_byte = first_bit / 8;
  const size_t last_byte = (first_bit + bits - 1) / 8;
  uint32_t word = 0;
  for (size_t byte = first_byte; byte <= last_byte; ++byte) {
    word |= static_cast<uint32_t>(row[byte]) << (8 * (byte - first_byte));
  }
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  return (word >> (first_bit % 8)) & mask;
}

// Values are copied as bytes: they may lie at any address, and the copy is bit-exact even for NaN.
void CopyRow(const Table& table, size_t id, size_t row_bytes, unsigned char* out) {
  const unsigned char* row = table.codes + id * row_bytes;
  const size_t last_code = static_cast<size_t>(table.num_codes) - 1;
  const size_t vector_bytes = static_cast<size_t>(table.group_width) * sizeof(float);
  const size_t group_bytes = table.shared ? 0 : static_cast<size_t>(table.num_codes) * vector_bytes;

  for (size_t group = 0; group < static_cast<size_t>(table.num_groups); ++group) {
    size_t code = CodeAt(row, group, static_cast<size_t>(table.bits));
    if (code > last_code) code = last_code;  // a hostile code stays inside its own group
    const unsigned char* vector = table.values + group * group_bytes + code * vector_bytes;
    __builtin_memcpy(out + group * vector_bytes, vector, vector_bytes);
  }
}

}  // namespace

template <typename Id>
ee_status GatherF32Reference(const Table& table, const Id* ids, size_t begin, size_t end, float* rows,
                             size_t* bad_position) {
  uint64_t row_bytes;
  size_t output_row_bytes;
  if (!RowBytes(table.num_groups, table.bits, &row_bytes) || !OutputBytes(table, 1, &output_row_bytes)) {
    return EE_SIZE_OVERFLOW;  // not reached with a valid table
  }
  unsigned char* out = reinterpret_cast<unsigned char*>(rows) + begin * output_row_bytes;
  for (size_t i = begin; i < end; ++i, out += output_row_bytes) {
    const int64_t id = ids[i];
    if (id < 0 || id >= table.num_embeddings) {
      *bad_position = i;
      return EE_ID_OUT_OF_RANGE;
    }
    if (id == table.padding_idx) {
      __builtin_memset(out, 0, output_row_bytes);  // all bits zero is +0.0
    } else {
      CopyRow(table, static_cast<size_t>(id), static_cast<size_t>(row_bytes), out);
    }
  }
  return EE_OK;
}

template ee_status GatherF32Reference<int32_t>(const Table&, const int32_t*, size_t, size_t, float*, size_t*);
template ee_status GatherF32Reference<int64_t>(const Table&, const int64_t*, size_t, size_t, float*, size_t*);

}  // namespace edge_embed::dpq
