// Everything that is compiled here is in an unnamed namespace or inlined: a function with a name of its own
// would be the linker's to share with code for other processors.
#include "kernels/dpq/fast_permute.h"
#include "kernels/isa/isa.h"
#include "kernels/tt/fast.h"

namespace edge_embed {
namespace {

ee_status DpqGather(const dpq::Table& table, const Ids& ids, size_t begin, size_t end, const Output& rows,
                    double* scratch, size_t* bad_position) {
  return kAvx2Dpq.gather.run(table, ids, begin, end, rows, scratch, bad_position);
}
Size DpqGatherScratch(const dpq::Table& table) { return kAvx2Dpq.gather.scratch(table); }

ee_status DpqBag(const dpq::Table& table, const Ids& ids, const Bags& bags, size_t begin, size_t end,
                 const Output& out, double* scratch, size_t* bad_position) {
  return kAvx2Dpq.bag.run(table, ids, bags, begin, end, out, scratch, bad_position);
}
Size DpqBagScratch(const dpq::Table& table) { return kAvx2Dpq.bag.scratch(table); }

ee_status DpqLogits(const dpq::Table& table, const float* hidden, size_t batch, size_t begin, size_t end,
                    const Output& logits, double* scratch, size_t* bad_position) {
  const dpq::LogitsCall call{hidden, begin, end, static_cast<size_t>(table.num_embeddings), logits};
  const bool floats = table.value_type != EE_INT8;
  if (floats && dpq::PermuteLogits(table, dpq::Layout(table), call, batch, scratch)) return EE_OK;
  return kAvx2Dpq.logits.run(table, hidden, batch, begin, end, logits, scratch, bad_position);
}
Size DpqLogitsScratch(const dpq::Table& table) {
  return Max(kAvx2Dpq.logits.scratch(table), dpq::PermuteScratch(table));
}

constexpr Kernels<dpq::Table> kDpq{
    {DpqGather, DpqGatherScratch}, {DpqBag, DpqBagScratch}, {DpqLogits, DpqLogitsScratch}};

}  // namespace

constexpr Variant kAvx512{"avx512", HasAvx512, &kAvx2Ant, &kDpq, &tt::kFast};

}  // namespace edge_embed
