// The operators of sparse activations, which use no table.
#ifndef EDGE_EMBED_ORT_ENTMAX_H_
#define EDGE_EMBED_ORT_ENTMAX_H_

#include "ort/op.h"

namespace edge_embed::ort {

constexpr size_t kNumEntmaxOps = 4;
extern const OpSpec kEntmaxOps[kNumEntmaxOps];

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_ENTMAX_H_
