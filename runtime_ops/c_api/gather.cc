// Rows of ids.
#include "c_api/call.h"

namespace {

using edge_embed::ChosenKernels;
using edge_embed::Ids;
using edge_embed::Output;
using edge_embed::c_api::Buffer;
using edge_embed::c_api::CheckBuffers;
using edge_embed::c_api::IdType;
using edge_embed::c_api::Report;
using edge_embed::c_api::ToTable;

template <class CTable, typename Id>
ee_status Gather(const CTable* c_table, const Id* ids, int64_t num_ids, const Buffer& rows,
                 const Buffer* scratch, int64_t* bad_position) {
  if (bad_position != nullptr) *bad_position = -1;
  if (c_table == nullptr) return EE_NULL_POINTER;
  const auto table = ToTable(*c_table);
  const ee_status valid = Validate(table);
  if (valid != EE_OK) return valid;
  if (num_ids < 0) return EE_BAD_SHAPE;
  if (num_ids == 0) return EE_OK;
  if (ids == nullptr || rows.data == nullptr) return EE_NULL_POINTER;
  const size_t count = static_cast<size_t>(num_ids);
  const ee_status fits = CheckBuffers(table, count, Columns(table), rows, scratch);
  if (fits != EE_OK) return fits;

  double* const memory = scratch == nullptr ? nullptr : static_cast<double*>(scratch->data);
  size_t bad = 0;
  const ee_status status = ChosenKernels(table).gather.run(table, Ids{ids, IdType(ids), count}, 0, count,
                                                           Output{rows.data, EE_FLOAT32}, memory, &bad);
  return Report(status, bad, bad_position);
}

}  // namespace

ee_status ee_dpq_gather_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return Gather(table, ids, num_ids, {rows, rows_bytes}, nullptr, bad_position);
}

ee_status ee_dpq_gather_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return Gather(table, ids, num_ids, {rows, rows_bytes}, nullptr, bad_position);
}

ee_status ee_ant_gather_f32_i64(const ee_ant_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_ant_gather_f32_i32(const ee_ant_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_tt_gather_f32_i64(const ee_tt_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}

ee_status ee_tt_gather_f32_i32(const ee_tt_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  const Buffer memory{scratch, scratch_bytes};
  return Gather(table, ids, num_ids, {rows, rows_bytes}, &memory, bad_position);
}
