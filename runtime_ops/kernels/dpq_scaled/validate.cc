#include "kernels/dpq_scaled/dpq_scaled.h"

namespace edge_embed::dpq_scaled {

ee_status Validate(const Table& table) {
  const ee_status status = dpq::Validate(table.plain());
  if (status != EE_OK) return status;
  if (table.unused_columns < 0 || table.unused_columns >= table.group_width) return EE_BAD_UNUSED_COLUMNS;
  if (table.num_row_scales < 0 || table.num_row_scales > EE_MAX_ROW_SCALES) return EE_BAD_NUM_ROW_SCALES;
  if (!table.has_scales()) return EE_OK;
  if (table.row_scale_codes == nullptr || table.row_scales == nullptr) return EE_NULL_POINTER;
  if (table.row_scale_codes_bytes < static_cast<uint64_t>(table.num_embeddings))
    return EE_SHORT_ROW_SCALE_CODES;
  if (table.row_scales_bytes < static_cast<uint64_t>(table.num_row_scales) * sizeof(float)) {
    return EE_SHORT_ROW_SCALES;
  }
  return EE_OK;
}

}  // namespace edge_embed::dpq_scaled
