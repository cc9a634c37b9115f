// The fast kernels of DPQ, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_DPQ_FAST_H_
#define EDGE_EMBED_KERNELS_DPQ_FAST_H_

#include "kernels/dpq/fast_bag.h"
#include "kernels/dpq/fast_gather.h"
#include "kernels/dpq/fast_logits.h"
#include "kernels/dpq/fast_topk.h"
#include "kernels/variant.h"

namespace edge_embed::dpq {
namespace {

constexpr Kernels<Table> kFast{
    {Gather, GatherScratch}, {Bag, BagScratch}, {Logits, LogitsScratch, Prepare, PreparedDoubles}, kTopK};

}  // namespace
}  // namespace edge_embed::dpq

#endif  // EDGE_EMBED_KERNELS_DPQ_FAST_H_
