#include "c_api/edge_embed.h"

#include "kernels/dpq/dpq.h"

namespace {

namespace dpq = edge_embed::dpq;

dpq::Table ToTable(const ee_dpq_table& c) {
  dpq::Table table{};
  table.codes = c.codes;
  table.codes_bytes = c.codes_bytes;
  table.values = static_cast<const unsigned char*>(c.values);
  table.values_bytes = c.values_bytes;
  table.num_embeddings = c.num_embeddings;
  table.num_codes = c.num_codes;
  table.num_groups = c.num_groups;
  table.group_width = c.group_width;
  table.padding_idx = c.padding_idx;
  table.bits = c.bits;
  table.shared = c.shared != 0;
  return table;
}

template <typename Id>
ee_status GatherF32(const ee_dpq_table* c_table, const Id* ids, int64_t num_ids, float* rows,
                    size_t rows_bytes, int64_t* bad_position) {
  if (bad_position != nullptr) *bad_position = -1;
  if (c_table == nullptr) return EE_NULL_POINTER;
  const dpq::Table table = ToTable(*c_table);
  const ee_status valid = dpq::Validate(table);
  if (valid != EE_OK) return valid;
  if (num_ids < 0) return EE_BAD_SHAPE;
  if (num_ids == 0) return EE_OK;
  if (ids == nullptr || rows == nullptr) return EE_NULL_POINTER;

  size_t needed;
  if (!dpq::OutputBytes(table, static_cast<uint64_t>(num_ids), &needed)) return EE_SIZE_OVERFLOW;
  if (rows_bytes < needed) return EE_SHORT_OUTPUT;

  size_t bad;
  const ee_status status = dpq::GatherF32Reference(table, ids, 0, static_cast<size_t>(num_ids), rows, &bad);
  if (status == EE_ID_OUT_OF_RANGE && bad_position != nullptr) *bad_position = static_cast<int64_t>(bad);
  return status;
}

}  // namespace

const char* ee_version(void) { return EDGE_EMBED_VERSION; }

const char* ee_status_message(int32_t status) { return edge_embed::StatusMessage(status); }

ee_status ee_dpq_gather_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return GatherF32(table, ids, num_ids, rows, rows_bytes, bad_position);
}

ee_status ee_dpq_gather_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return GatherF32(table, ids, num_ids, rows, rows_bytes, bad_position);
}
