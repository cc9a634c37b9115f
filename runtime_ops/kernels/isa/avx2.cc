// All code of this file is in an unnamed namespace or inlined. The linker could otherwise use a function of
// this file on other processors.
#include "kernels/fast.h"
#include "kernels/isa/isa.h"

namespace edge_embed {

#define EDGE_EMBED_KERNELS(method, NAME) constexpr Kernels<method::Table> kAvx2##NAME = method::kFast;
EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)
#undef EDGE_EMBED_KERNELS
#define EDGE_EMBED_KERNELS(method, NAME) &kAvx2##NAME,
constexpr Variant kAvx2{"avx2", HasAvx2, OfferAll, EDGE_EMBED_METHODS(EDGE_EMBED_KERNELS)};
#undef EDGE_EMBED_KERNELS

constexpr tiered::Loops kAvx2TierLoops = tiered::kLoops;

ee_status Avx2AntGather(const ant::Loops& loops, const ant::Table& table, const Ids& ids, size_t begin,
                        size_t end, const Output& rows, double* scratch, size_t* bad_position) {
  return ant::GatherBy(loops, table, ids, begin, end, rows, scratch, bad_position);
}
ee_status Avx2AntBag(const ant::Loops& loops, const ant::Table& table, const Ids& ids, const Bags& bags,
                     size_t begin, size_t end, const Output& out, double* scratch, size_t* bad_position) {
  return ant::BagBy(loops, table, ids, bags, begin, end, out, scratch, bad_position);
}

}  // namespace edge_embed
