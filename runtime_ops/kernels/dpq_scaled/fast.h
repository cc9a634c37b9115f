// The fast kernels of DPQ with row scales, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_H_
#define EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_H_

#include "kernels/dpq/fast.h"
#include "kernels/dpq_scaled/fast_bag.h"
#include "kernels/dpq_scaled/fast_gather.h"
#include "kernels/dpq_scaled/fast_logits.h"

namespace edge_embed::dpq_scaled {
namespace {

// The kernels around logits of plain tables.
template <const PlainLogits& kPlain>
constexpr Kernels<Table> kAround{
    {Gather, GatherScratch},
    {Bag, BagScratch},
    {Logits<kPlain>, LogitsScratch<kPlain>, Prepare<kPlain>, PreparedDoubles<kPlain>, nullptr},
    nullptr};

constexpr PlainLogits kPlainLogits = dpq::kFast.logits;
constexpr Kernels<Table> kFast = kAround<kPlainLogits>;

}  // namespace
}  // namespace edge_embed::dpq_scaled

#endif  // EDGE_EMBED_KERNELS_DPQ_SCALED_FAST_H_
