#include "kernels/dpq/dpq.h"

namespace edge_embed::dpq {
namespace {

// Products are unsigned: compilers expand that check inline on every target, without a support library.
bool Multiply(uint64_t a, uint64_t b, uint64_t* product) { return !__builtin_mul_overflow(a, b, product); }

int BitsFor(int64_t num_codes) {
  int bits = 1;
  while ((int64_t{1} << bits) < num_codes) ++bits;
  return bits;
}

bool CodesBytes(const Table& table, uint64_t* bytes) {
  uint64_t row_bytes;
  return RowBytes(table.num_groups, table.bits, &row_bytes) &&
         Multiply(static_cast<uint64_t>(table.num_embeddings), row_bytes, bytes);
}

bool ValuesBytes(const Table& table, uint64_t* bytes) {
  const uint64_t groups = table.shared ? 1 : static_cast<uint64_t>(table.num_groups);
  uint64_t vectors, floats;
  return Multiply(groups, static_cast<uint64_t>(table.num_codes), &vectors) &&
         Multiply(vectors, static_cast<uint64_t>(table.group_width), &floats) &&
         Multiply(floats, sizeof(float), bytes);
}

}  // namespace

bool RowBytes(int64_t num_groups, int bits, uint64_t* row_bytes) {
  uint64_t row_bits;
  if (num_groups < 1 || bits < 1 || bits > 16) return false;
  if (!Multiply(static_cast<uint64_t>(num_groups), static_cast<uint64_t>(bits), &row_bits)) return false;
  *row_bytes = row_bits / 8 + (row_bits % 8 != 0);
  return true;
}

bool OutputBytes(const Table& table, uint64_t num_ids, size_t* bytes) {
  uint64_t row_floats, floats, total;
  if (!Multiply(static_cast<uint64_t>(table.num_groups), static_cast<uint64_t>(table.group_width),
                &row_floats) ||
      !Multiply(num_ids, row_floats, &floats) || !Multiply(floats, sizeof(float), &total) ||
      total > PTRDIFF_MAX) {
    return false;
  }
  *bytes = static_cast<size_t>(total);
  return true;
}

ee_status Validate(const Table& table) {
  if (table.codes == nullptr || table.values == nullptr) return EE_NULL_POINTER;
  if (table.num_embeddings < 1 || table.num_groups < 1 || table.group_width < 1) return EE_BAD_SHAPE;
  if (table.num_codes < 2 || table.num_codes > kMaxNumCodes) return EE_BAD_NUM_CODES;
  if (table.bits != BitsFor(table.num_codes)) return EE_BAD_BITS;
  if (table.padding_idx < kNoPadding || table.padding_idx >= table.num_embeddings) return EE_BAD_PADDING;

  uint64_t codes_bytes, values_bytes;
  size_t one_row;
  if (!CodesBytes(table, &codes_bytes) || !ValuesBytes(table, &values_bytes) ||
      !OutputBytes(table, 1, &one_row)) {
    return EE_SIZE_OVERFLOW;
  }
  if (table.codes_bytes < codes_bytes) return EE_SHORT_CODES;
  if (table.values_bytes < values_bytes) return EE_SHORT_VALUES;
  return EE_OK;
}

}  // namespace edge_embed::dpq
