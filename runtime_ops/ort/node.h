// Access of an operator to its node: attributes, input tensors, the version of the file format. Functions
// that return OrtStatus* return null on success. The caller passes any other value to the runtime.
#ifndef EDGE_EMBED_ORT_NODE_H_
#define EDGE_EMBED_ORT_NODE_H_

#include <onnxruntime_c_api.h>

#include "kernels/use.h"
#include "ort/message.h"

namespace edge_embed::ort {

// The lowest API version that has all functions used here; KernelContext_ParallelFor is the newest. One
// library serves every ONNX Runtime from 1.17 on. Increase this before you call a newer function: the header
// declares functions that the table of an older runtime lacks.
constexpr uint32_t kOrtApiVersion = 17;
constexpr const char* kDomain = "edge_embed";
constexpr int64_t kFormatVersion = 1;
constexpr size_t kMaxRank = 32;
constexpr const char* kDamaged =
    ": the file is damaged or was not made by edge-embed, export the model again";

// The node that an error message names.
struct Node {
  const OrtApi* api;
  const char* op;
};

// Types of an input, one bit each.
using TypeSet = uint32_t;
constexpr TypeSet Only(ee_type type) { return TypeSet{1} << type; }
constexpr TypeSet kFloats = Only(EE_FLOAT32) | Only(EE_FLOAT16);
constexpr TypeSet kIdTypes = Only(EE_INT32) | Only(EE_INT64);

struct InputSpec {
  const char* name;
  TypeSet types;
};

// A tensor in the memory of the runtime: `data` is never copied and may be misaligned.
struct Tensor {
  const void* data;
  ee_type type;
  size_t count;
  size_t rank;
  int64_t dims[kMaxRank];
};

// Writes "edge_embed.<op>: ", the prefix of every error message.
Message Begin(const Node& node);

OrtStatus* Fail(const Node& node, const Message& message);

// Refuses a node whose input has a type that the kernel cannot read, when the session is created.
OrtStatus* CheckInputType(const Node& node, const OrtKernelInfo* info, size_t index, const InputSpec& spec);

// `name` is the name of the tensor in error messages.
OrtStatus* ReadTensor(const Node& node, const OrtValue* value, const char* name, Tensor* tensor);

OrtStatus* ReadInput(const Node& node, const OrtKernelContext* context, size_t index, const char* name,
                     Tensor* tensor);

// Memory that the runtime allocates.
OrtStatus* MakeOutput(const Node& node, OrtKernelContext* context, size_t index, const int64_t* dims,
                      size_t rank, ee_type type, Output* output);

OrtStatus* ReadInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value);

// As ReadInt, but returns false and keeps *value if the node has no such attribute.
bool ReadOptionalInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value);

// Refuses a node of another version of the packed form.
OrtStatus* CheckFormatVersion(const Node& node, const OrtKernelInfo* info);

// Accepts null.
void Free(const OrtApi& api, OrtAllocator* allocator, void* memory);

ONNXTensorElementDataType OnnxType(ee_type type);

// Writes "[3, 4]".
Message& operator<<(Message& message, const Tensor& tensor);

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_NODE_H_
