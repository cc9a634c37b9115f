// Bags of rows, reduced.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

template <class Table, typename Id>
ee_status BagRows(const Table& table, const Id* ids, int64_t num_ids, const ee_bags& c_bags,
                  const Buffer& out, const Buffer& scratch, int64_t* bad_position) {
  if (num_ids < 0 || c_bags.num_bags < 0) return EE_BAD_SHAPE;
  const size_t count = static_cast<size_t>(num_ids), bag_count = static_cast<size_t>(c_bags.num_bags);
  const bool nothing_to_write = bag_count == 0;
  if (c_bags.offsets == nullptr || (ids == nullptr && count > 0) ||
      (out.data == nullptr && !nothing_to_write)) {
    return EE_NULL_POINTER;
  }

  const Bags bags{c_bags.offsets, bag_count, c_bags.sample_weights, EE_FLOAT32,
                  static_cast<BagMode>(c_bags.mode)};
  size_t bad = 0;
  const ee_status sound = CheckBags(bags, count, &bad);
  if (sound != EE_OK) return Report(sound, bad, bad_position);
  if (nothing_to_write) return EE_OK;
  const ee_status fits = CheckBuffers(table, bag_count, Columns(table), out, &scratch);
  if (fits != EE_OK) return fits;

  const ee_status status =
      ChosenKernels(table).bag.run(table, Ids{ids, IdType(ids), count}, bags, 0, bag_count,
                                   Output{out.data, EE_FLOAT32}, static_cast<double*>(scratch.data), &bad);
  return Report(status, bad, bad_position);
}

template <class CTable, typename Id>
ee_status Bag(const CTable* c_table, const Id* ids, int64_t num_ids, const ee_bags* bags, const Buffer& out,
              const Buffer& scratch, int64_t* bad_position) {
  if (bad_position != nullptr) *bad_position = -1;
  if (bags == nullptr) return EE_NULL_POINTER;
  return WithTable(c_table, [&](const auto& table) {
    return BagRows(table, ids, num_ids, *bags, out, scratch, bad_position);
  });
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_dpq_bag_f32_i64(const ee_dpq_table* table, const int64_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}

ee_status ee_dpq_bag_f32_i32(const ee_dpq_table* table, const int32_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}

ee_status ee_ant_bag_f32_i64(const ee_ant_table* table, const int64_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}

ee_status ee_ant_bag_f32_i32(const ee_ant_table* table, const int32_t* ids, int64_t num_ids,
                             const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                             size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}

ee_status ee_tt_bag_f32_i64(const ee_tt_table* table, const int64_t* ids, int64_t num_ids,
                            const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                            size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}

ee_status ee_tt_bag_f32_i32(const ee_tt_table* table, const int32_t* ids, int64_t num_ids,
                            const ee_bags* bags, float* out, size_t out_bytes, void* scratch,
                            size_t scratch_bytes, int64_t* bad_position) {
  return edge_embed::c_api::Bag(table, ids, num_ids, bags, {out, out_bytes}, {scratch, scratch_bytes},
                                bad_position);
}
