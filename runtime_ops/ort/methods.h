// The operators of each method: one list here, which ends with null, and one file beside this.
#ifndef EDGE_EMBED_ORT_METHODS_H_
#define EDGE_EMBED_ORT_METHODS_H_

#include <onnxruntime_c_api.h>

namespace edge_embed::ort {

extern const OrtCustomOp* const kAntOps[];
extern const OrtCustomOp* const kDpqOps[];
extern const OrtCustomOp* const kTtOps[];

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_METHODS_H_
