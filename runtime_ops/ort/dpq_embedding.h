// The ONNX operator edge_embed.DPQEmbedding, version 1:
//   ids (int32 | int64, any rank), codes uint8 [n, row_bytes], values float32 [num_groups or 1, num_codes, s]
//   -> rows float32 [*ids.shape, num_groups * s]
#ifndef EDGE_EMBED_ORT_DPQ_EMBEDDING_H_
#define EDGE_EMBED_ORT_DPQ_EMBEDDING_H_

#include <onnxruntime_c_api.h>

namespace edge_embed::ort {

// One operator for each dtype of ids, all under the same name: the runtime picks by input type. They live as
// long as the library.
extern const OrtCustomOp kDpqEmbeddingInt32;
extern const OrtCustomOp kDpqEmbeddingInt64;

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_DPQ_EMBEDDING_H_
