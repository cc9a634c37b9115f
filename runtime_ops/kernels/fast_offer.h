// Most logits are below the smallest of the k largest so far, so they are compared many at a time.
#ifndef EDGE_EMBED_KERNELS_FAST_OFFER_H_
#define EDGE_EMBED_KERNELS_FAST_OFFER_H_

#include "kernels/candidate.h"
#include "kernels/simd.h"

namespace edge_embed {
namespace {

// Offers the logits of the rows first .. first+count-1.
inline void OfferAll(const float* logits, size_t count, size_t first, const Best& best) {
  constexpr size_t kVectors = 4, kAtOnce = kVectors * kLanes;
  size_t i = 0;
  while (i < count) {
    const float threshold = best.Threshold();
    for (; i + kAtOnce <= count; i += kAtOnce) {
      Words more{};
      for (size_t v = 0; v < kVectors; ++v) {
        more |= (Words) ~(LoadFloats(logits + i + v * kLanes) <= Broadcast(threshold));
      }
      if (Any(more)) break;
    }
    if (i == count) break;
    const size_t some = count - i < kAtOnce ? count - i : kAtOnce;
    best.Offer(logits + i, some, first + i);
    i += some;
  }
}

}  // namespace
}  // namespace edge_embed

#endif  // EDGE_EMBED_KERNELS_FAST_OFFER_H_
