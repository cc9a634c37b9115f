// Everything that is compiled here is in an unnamed namespace or inlined: a function with a name of its own
// would be the linker's to share with code for other processors.
#include "kernels/ant/fast.h"
#include "kernels/dpq/fast.h"
#include "kernels/fast_offer.h"
#include "kernels/isa/isa.h"
#include "kernels/tt/fast.h"

namespace edge_embed {

constexpr Kernels<ant::Table> kAvx2Ant = ant::kFast;
constexpr Kernels<dpq::Table> kAvx2Dpq = dpq::kFast;
constexpr Variant kAvx2{"avx2", HasAvx2, &kAvx2Ant, &kAvx2Dpq, &tt::kFast, OfferAll};

ee_status Avx2AntGather(const ant::Loops& loops, const ant::Table& table, const Ids& ids, size_t begin,
                        size_t end, const Output& rows, double* scratch, size_t* bad_position) {
  return ant::GatherBy(loops, table, ids, begin, end, rows, scratch, bad_position);
}
ee_status Avx2AntBag(const ant::Loops& loops, const ant::Table& table, const Ids& ids, const Bags& bags,
                     size_t begin, size_t end, const Output& out, double* scratch, size_t* bad_position) {
  return ant::BagBy(loops, table, ids, bags, begin, end, out, scratch, bad_position);
}

}  // namespace edge_embed
