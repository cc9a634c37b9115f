// The loops of tiered tables, compiled once for each instruction set (kernels/isa/).
#ifndef EDGE_EMBED_KERNELS_TIERED_FAST_H_
#define EDGE_EMBED_KERNELS_TIERED_FAST_H_

#include "kernels/dpq/fast.h"
#include "kernels/dpq_scaled/fast.h"
#include "kernels/tiered/fast_bag.h"
#include "kernels/tiered/fast_interleave.h"
#include "kernels/tiered/fast_places.h"

namespace edge_embed::tiered {
namespace {

constexpr Loops kLoops{FindPlaces, CountRows, AddRows, KeepLargest, WriteBag};
constexpr TierKernels kTiers{&dpq::kFast, &dpq_scaled::kFast, &kLoops, Interleave};
constexpr Kernels<Table> kFast = Around<kTiers>::kKernels;

}  // namespace
}  // namespace edge_embed::tiered

#endif  // EDGE_EMBED_KERNELS_TIERED_FAST_H_
