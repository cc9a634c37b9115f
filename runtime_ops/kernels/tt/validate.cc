#include "kernels/tt/tt.h"

namespace edge_embed::tt {
namespace {

Size Of(int64_t size) { return static_cast<uint64_t>(size); }

ee_status CheckCore(const Core& core, ee_type type) {
  if (core.rows < 1 || core.rank_in < 1 || core.columns < 1 || core.rank_out < 1) return EE_BAD_SHAPE;
  if (core.data == nullptr) return EE_NULL_POINTER;
  uint64_t bytes;
  if (!(Of(core.rows) * Of(core.rank_in) * Of(core.columns) * Of(core.rank_out) * SizeOf(type)).Get(&bytes)) {
    return EE_SIZE_OVERFLOW;
  }
  return core.bytes < bytes ? EE_SHORT_CORE : EE_OK;
}

ee_status CheckCores(const Table& table) {
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const ee_status status = CheckCore(table.cores[k], table.core_type);
    if (status != EE_OK) return status;
  }
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const Core& next = table.cores[(k + 1) % table.num_cores];
    if (table.cores[k].rank_out != next.rank_in) return EE_BAD_RANKS;
  }
  return EE_OK;
}

}  // namespace

Size StateDoubles(const Table& table) {
  Size columns = 1, largest = 1;
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const Core& core = table.cores[k];
    columns = columns * Of(core.columns);
    largest = Max(largest, k == table.num_cores - 1 ? columns : columns * Of(core.rank_out));
  }
  return largest;
}

Size SliceDoubles(const Table& table) {
  Size largest = 1;
  for (int64_t k = 0; k < table.num_cores; ++k) {
    const Core& core = table.cores[k];
    largest = Max(largest, Of(core.rank_in) * Of(core.columns) * Of(core.rank_out));
  }
  return largest;
}

ee_status Validate(const Table& table) {
  if (table.num_cores < EE_MIN_CORES || table.num_cores > EE_MAX_CORES) return EE_BAD_NUM_CORES;
  if (table.num_embeddings < 1) return EE_BAD_SHAPE;
  if (!IsFloat(table.core_type)) return EE_BAD_TYPE;
  if (table.padding_idx < kNoPadding || table.padding_idx >= table.num_embeddings) return EE_BAD_PADDING;
  const ee_status cores = CheckCores(table);
  if (cores != EE_OK) return cores;

  Size rows = 1, columns = 1;
  for (int64_t k = 0; k < table.num_cores; ++k) {
    rows = rows * Of(table.cores[k].rows);
    columns = columns * Of(table.cores[k].columns);
  }
  uint64_t num_rows, scratch_bytes;
  const Size scratch = columns * 2 + StateDoubles(table) * 2 + SliceDoubles(table);
  if (!rows.Get(&num_rows) || !(scratch * sizeof(double)).Get(&scratch_bytes)) return EE_SIZE_OVERFLOW;
  return num_rows < static_cast<uint64_t>(table.num_embeddings) ? EE_FEW_CORE_ROWS : EE_OK;
}

}  // namespace edge_embed::tt
