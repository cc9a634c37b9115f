// The operators of each method: one list here, one file beside this.
#ifndef EDGE_EMBED_ORT_METHODS_H_
#define EDGE_EMBED_ORT_METHODS_H_

#include <onnxruntime_c_api.h>

namespace edge_embed::ort {

constexpr size_t kOpsOfMethod = 8;  // four uses, each for float32 and float16

extern const OrtCustomOp* const kAntOps[kOpsOfMethod];
extern const OrtCustomOp* const kDpqOps[kOpsOfMethod];
extern const OrtCustomOp* const kTtOps[kOpsOfMethod];

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_METHODS_H_
