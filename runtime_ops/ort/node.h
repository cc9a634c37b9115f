// What every operator of ours asks of its node: attributes, input tensors, the version of the file format.
// Functions that return OrtStatus* give null on success; the caller passes anything else on to the runtime.
#ifndef EDGE_EMBED_ORT_NODE_H_
#define EDGE_EMBED_ORT_NODE_H_

#include <onnxruntime_c_api.h>

#include "kernels/use.h"
#include "ort/message.h"

namespace edge_embed::ort {

// The lowest API with all that we call; KernelContext_ParallelFor is its newest function. One library serves
// every ONNX Runtime from 1.17 on. Raise it before calling anything newer: the header declares functions that
// an older runtime's table does not have.
constexpr uint32_t kOrtApiVersion = 17;
constexpr const char* kDomain = "edge_embed";
constexpr int64_t kFormatVersion = 1;
constexpr size_t kMaxRank = 32;
constexpr const char* kDamaged =
    ": the file is damaged or was not made by edge-embed, export the model again";

// Who is speaking, for error texts.
struct Node {
  const OrtApi* api;
  const char* op;
};

// Types that an input may have, one bit each.
using TypeSet = uint32_t;
constexpr TypeSet Only(ee_type type) { return TypeSet{1} << type; }
constexpr TypeSet kFloats = Only(EE_FLOAT32) | Only(EE_FLOAT16);
constexpr TypeSet kIdTypes = Only(EE_INT32) | Only(EE_INT64);

struct InputSpec {
  const char* name;
  TypeSet types;
};

// One tensor where the runtime keeps it: `data` is never copied and may be misaligned.
struct Tensor {
  const void* data;
  ee_type type;
  size_t count;
  size_t rank;
  int64_t dims[kMaxRank];
};

// "edge_embed.<op>: ", the beginning of every error text.
Message Begin(const Node& node);

OrtStatus* Fail(const Node& node, const Message& message);

// Refuses a node whose input has another type than the kernel reads, when the session is made.
OrtStatus* CheckInputType(const Node& node, const OrtKernelInfo* info, size_t index, const InputSpec& spec);

// `name` is what the error text calls the tensor.
OrtStatus* ReadTensor(const Node& node, const OrtValue* value, const char* name, Tensor* tensor);

OrtStatus* ReadInput(const Node& node, const OrtKernelContext* context, size_t index, const char* name,
                     Tensor* tensor);

// Allocated by the runtime.
OrtStatus* MakeOutput(const Node& node, OrtKernelContext* context, size_t index, const int64_t* dims,
                      size_t rank, ee_type type, Output* output);

OrtStatus* ReadInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value);

// As ReadInt, but false and *value as it was where the node has no such attribute.
bool ReadOptionalInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value);

// Refuses a node that was written for another version of the packed form.
OrtStatus* CheckFormatVersion(const Node& node, const OrtKernelInfo* info);

// Null is nothing to free.
void Free(const OrtApi& api, OrtAllocator* allocator, void* memory);

ONNXTensorElementDataType OnnxType(ee_type type);

// Writes "[3, 4]".
Message& operator<<(Message& message, const Tensor& tensor);

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_NODE_H_
