// The fast kernels of TT, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_TT_FAST_H_
#define EDGE_EMBED_KERNELS_TT_FAST_H_

#include "kernels/tt/fast_bag.h"
#include "kernels/tt/fast_gather.h"
#include "kernels/tt/fast_logits.h"
#include "kernels/variant.h"

namespace edge_embed::tt {
namespace {

constexpr Kernels<Table> kFast{
    {GatherFast, GatherScratch}, {BagFast, BagScratch}, {LogitsFast, LogitsScratch}};

}  // namespace
}  // namespace edge_embed::tt

#endif  // EDGE_EMBED_KERNELS_TT_FAST_H_
