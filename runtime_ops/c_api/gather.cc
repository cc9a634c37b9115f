// Lookups of rows.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

template <class Table>
ee_status Gather(const Table& table, const Ids& ids, const Buffer& rows, const Buffer& scratch,
                 int64_t* bad_position) {
  if (ids.count == 0) return EE_OK;
  if (rows.data == nullptr) return EE_NULL_POINTER;
  const auto& kernel = ChosenKernels(table).gather;
  const ee_status fits = CheckBuffers(ids.count, Columns(table), rows, kernel.scratch(table), scratch);
  if (fits != EE_OK) return fits;
  size_t bad = 0;
  const ee_status status = kernel.run(table, ids, 0, ids.count, Output{rows.data, EE_FLOAT32},
                                      static_cast<double*>(scratch.data), &bad);
  return Report(status, bad, bad_position);
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_gather(const ee_table* table, const ee_ids* c_ids, float* rows, size_t rows_bytes, void* scratch,
                    size_t scratch_bytes, int64_t* bad_position) {
  using namespace edge_embed;
  if (bad_position != nullptr) *bad_position = -1;
  return c_api::WithTable(table, [&](const auto& sound, const auto&) {
    Ids ids;
    const ee_status status = c_api::ReadIds(c_ids, &ids);
    if (status != EE_OK) return status;
    return c_api::Gather(sound, ids, {rows, rows_bytes}, {scratch, scratch_bytes}, bad_position);
  });
}
