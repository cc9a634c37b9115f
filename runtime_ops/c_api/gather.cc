// Rows of ids.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

template <class Table, typename Id>
ee_status GatherRows(const Table& table, const Id* ids, int64_t num_ids, const Buffer& rows,
                     const Buffer* scratch, int64_t* bad_position) {
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

template <class CTable, typename Id>
ee_status Gather(const CTable* c_table, const Id* ids, int64_t num_ids, const Buffer& rows,
                 int64_t* bad_position, const Buffer* scratch = nullptr) {
  if (bad_position != nullptr) *bad_position = -1;
  return WithTable(c_table, [&](const auto& table) {
    return GatherRows(table, ids, num_ids, rows, scratch, bad_position);
  });
}

// With the scratch that all methods but DPQ need.
template <class CTable, typename Id>
ee_status Gather(const CTable* c_table, const Id* ids, int64_t num_ids, const Buffer& rows,
                 const Buffer& scratch, int64_t* bad_position) {
  return Gather(c_table, ids, num_ids, rows, bad_position, &scratch);
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_dpq_gather_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, bad_position);
}

ee_status ee_dpq_gather_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, bad_position);
}

ee_status ee_ant_gather_f32_i64(const ee_ant_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, {scratch, scratch_bytes},
                                   bad_position);
}

ee_status ee_ant_gather_f32_i32(const ee_ant_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                                size_t rows_bytes, void* scratch, size_t scratch_bytes,
                                int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, {scratch, scratch_bytes},
                                   bad_position);
}

ee_status ee_tt_gather_f32_i64(const ee_tt_table* table, const int64_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, {scratch, scratch_bytes},
                                   bad_position);
}

ee_status ee_tt_gather_f32_i32(const ee_tt_table* table, const int32_t* ids, int64_t num_ids, float* rows,
                               size_t rows_bytes, void* scratch, size_t scratch_bytes,
                               int64_t* bad_position) {
  return edge_embed::c_api::Gather(table, ids, num_ids, {rows, rows_bytes}, {scratch, scratch_bytes},
                                   bad_position);
}
