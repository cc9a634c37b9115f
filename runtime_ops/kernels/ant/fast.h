// The fast kernels of ANT, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_ANT_FAST_H_
#define EDGE_EMBED_KERNELS_ANT_FAST_H_

#include "kernels/ant/fast_bag.h"
#include "kernels/ant/fast_logits.h"
#include "kernels/variant.h"

namespace edge_embed::ant {
namespace {

constexpr Kernels<Table> kFast{
    {Gather, GatherScratch}, {Bag, BagScratchDoubles}, {LogitsOf, LogitsScratch, Prepare, PreparedDoubles}};

}  // namespace
}  // namespace edge_embed::ant

#endif  // EDGE_EMBED_KERNELS_ANT_FAST_H_
