// The operators of each method: one list here, of its uses, and one file beside this.
#ifndef EDGE_EMBED_ORT_METHODS_H_
#define EDGE_EMBED_ORT_METHODS_H_

#include "ort/op.h"

namespace edge_embed::ort {

constexpr size_t kNumUses = 4;

extern const OpSpec kAntOps[kNumUses];
extern const OpSpec kDpqOps[kNumUses];
extern const OpSpec kTtOps[kNumUses];

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_METHODS_H_
