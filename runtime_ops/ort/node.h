// What every operator of ours asks of its node: attributes, input tensors, the version of the file format.
// Functions that return OrtStatus* give null on success; the caller passes anything else on to the runtime.
#ifndef EDGE_EMBED_ORT_NODE_H_
#define EDGE_EMBED_ORT_NODE_H_

#include <onnxruntime_c_api.h>

#include "ort/message.h"

namespace edge_embed::ort {

// The lowest API with all that we call; KernelContext_ParallelFor is its newest function. One library serves
// every ONNX Runtime from 1.17 on. Raise it before calling anything newer: the header declares functions that
// an older runtime's table does not have.
constexpr uint32_t kOrtApiVersion = 17;
constexpr const char* kDomain = "edge_embed";
constexpr int64_t kFormatVersion = 1;
constexpr size_t kMaxRank = 32;

// One tensor where the runtime keeps it: `data` is never copied and may be misaligned.
struct Tensor {
  const void* data;
  size_t count;
  size_t rank;
  int64_t dims[kMaxRank];
};

OrtStatus* Fail(const OrtApi& api, const Message& message);

// `name` is what the error text calls the tensor.
OrtStatus* ReadTensor(const OrtApi& api, const OrtValue* value, const char* name, Tensor* tensor);

OrtStatus* ReadInput(const OrtApi& api, const OrtKernelContext* context, size_t index, const char* name,
                     Tensor* tensor);

OrtStatus* ReadInt(const OrtApi& api, const OrtKernelInfo* info, const char* op, const char* attribute,
                   int64_t* value);

// Refuses a node that was written for another version of the packed form.
OrtStatus* CheckFormatVersion(const OrtApi& api, const OrtKernelInfo* info, const char* op);

// Writes "[3, 4]".
Message& operator<<(Message& message, const Tensor& tensor);

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_NODE_H_
