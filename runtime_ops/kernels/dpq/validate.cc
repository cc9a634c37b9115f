#include "kernels/dpq/blocks.h"

namespace edge_embed::dpq {
namespace {

int BitsFor(int64_t num_codes) {
  int bits = 1;
  while ((int64_t{1} << bits) < num_codes) ++bits;
  return bits;
}

bool CodesBytes(const Table& table, uint64_t* bytes) {
  uint64_t row_bytes;
  return RowBytes(table.num_groups, table.bits, &row_bytes) &&
         (Size(static_cast<uint64_t>(table.num_embeddings)) * row_bytes).Get(bytes);
}

bool ValuesBytes(const Table& table, uint64_t* bytes) {
  const Size groups = table.shared ? 1 : static_cast<uint64_t>(table.num_groups);
  return (groups * static_cast<uint64_t>(table.num_codes) * static_cast<uint64_t>(table.group_width) *
          SizeOf(table.value_type))
      .Get(bytes);
}

bool ScalesBytes(const Table& table, uint64_t* bytes) {
  const Size groups = table.shared ? 1 : static_cast<uint64_t>(table.num_groups);
  return (groups * (table.value_type == EE_INT8 ? sizeof(float) : 0)).Get(bytes);
}

// A row and the scratch of every use.
bool RowFits(const Table& table) {
  uint64_t bytes;
  return (Size(static_cast<uint64_t>(table.num_groups)) * static_cast<uint64_t>(table.group_width) * 2 *
          sizeof(double))
      .Get(&bytes);
}

}  // namespace

bool RowBytes(int64_t num_groups, int bits, uint64_t* row_bytes) {
  uint64_t row_bits;
  if (num_groups < 1 || bits < 1 || bits > 16) return false;
  if (!(Size(static_cast<uint64_t>(num_groups)) * static_cast<uint64_t>(bits)).Get(&row_bits)) return false;
  *row_bytes = row_bits / 8 + (row_bits % 8 != 0);
  return true;
}

ee_status Validate(const Table& table) {
  if (table.num_embeddings < 1 || table.num_groups < 1 || table.group_width < 1) return EE_BAD_SHAPE;
  if (table.codes == nullptr || table.values == nullptr) return EE_NULL_POINTER;
  if (table.num_codes < EE_MIN_CODES || table.num_codes > EE_MAX_CODES) return EE_BAD_NUM_CODES;
  if (table.bits != BitsFor(table.num_codes)) return EE_BAD_BITS;
  if (!IsFloat(table.value_type) && table.value_type != EE_INT8) return EE_BAD_TYPE;
  if (table.value_type == EE_INT8 && table.value_scales == nullptr) return EE_NULL_POINTER;
  if (table.padding_idx < kNoPadding || table.padding_idx >= table.num_embeddings) return EE_BAD_PADDING;

  uint64_t codes_bytes, values_bytes, scales_bytes;
  if (!CodesBytes(table, &codes_bytes) || !ValuesBytes(table, &values_bytes) ||
      !ScalesBytes(table, &scales_bytes) || !RowFits(table)) {
    return EE_SIZE_OVERFLOW;
  }
  if (table.codes_bytes < codes_bytes) return EE_SHORT_CODES;
  if (table.values_bytes < values_bytes) return EE_SHORT_VALUES;
  if (table.value_scales_bytes < scales_bytes) return EE_SHORT_VALUE_SCALES;
  if (table.blocks != nullptr && table.blocks_bytes < BlocksBytes(table).saturated()) return EE_SHORT_BLOCKS;
  return EE_OK;
}

}  // namespace edge_embed::dpq
