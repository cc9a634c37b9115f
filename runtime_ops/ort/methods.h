// The operators of each method, defined in the file of its name in this folder.
#ifndef EDGE_EMBED_ORT_METHODS_H_
#define EDGE_EMBED_ORT_METHODS_H_

#include "ort/op.h"

namespace edge_embed::ort {

constexpr size_t kNumUses = 4;

#define EDGE_EMBED_OPS(method, NAME) extern const OpSpec k##NAME##Ops[kNumUses];
EDGE_EMBED_METHODS(EDGE_EMBED_OPS)
#undef EDGE_EMBED_OPS

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_METHODS_H_
