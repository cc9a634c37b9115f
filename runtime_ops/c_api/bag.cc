// Sums, means and maxima of bags of rows.
#include "c_api/call.h"

namespace edge_embed::c_api {
namespace {

// On EE_BAD_OFFSETS, *bad is the index of the first wrong offset.
ee_status ReadBags(const ee_bags* c, const Ids& ids, Bags* bags, size_t* bad) {
  if (c == nullptr) return EE_NULL_POINTER;
  if (c->num_bags < 0) return EE_BAD_SHAPE;
  if (c->offsets == nullptr) return EE_NULL_POINTER;
  *bags = {c->offsets, static_cast<size_t>(c->num_bags), c->sample_weights, EE_FLOAT32,
           static_cast<BagMode>(c->mode)};
  return CheckBags(*bags, ids.count, bad);
}

template <class Table>
ee_status Reduce(const Table& table, const Ids& ids, const Bags& bags, const Buffer& out,
                 const Buffer& scratch, size_t* bad) {
  if (bags.count == 0) return EE_OK;
  if (out.data == nullptr) return EE_NULL_POINTER;
  const auto& kernel = ChosenKernels(table).bag;
  const ee_status fits = CheckBuffers(bags.count, Columns(table), out, kernel.scratch(table), scratch);
  if (fits != EE_OK) return fits;
  return kernel.run(table, ids, bags, 0, bags.count, Output{out.data, EE_FLOAT32},
                    static_cast<double*>(scratch.data), bad);
}

}  // namespace
}  // namespace edge_embed::c_api

ee_status ee_bag(const ee_table* table, const ee_ids* c_ids, const ee_bags* c_bags, float* out,
                 size_t out_bytes, void* scratch, size_t scratch_bytes, int64_t* bad_position) {
  using namespace edge_embed;
  if (bad_position != nullptr) *bad_position = -1;
  size_t bad = 0;
  const ee_status status = c_api::WithTable(table, [&](const auto& sound, const auto&) {
    Ids ids;
    Bags bags;
    ee_status read = c_api::ReadIds(c_ids, &ids);
    if (read == EE_OK) read = c_api::ReadBags(c_bags, ids, &bags, &bad);
    if (read != EE_OK) return read;
    return c_api::Reduce(sound, ids, bags, {out, out_bytes}, {scratch, scratch_bytes}, &bad);
  });
  return c_api::Report(status, bad, bad_position);
}
