#include "ort/node.h"

namespace edge_embed::ort {
namespace {

struct TypeName {
  ee_type type;
  ONNXTensorElementDataType onnx;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {EE_FLOAT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float32"},
    {EE_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16"},
    {EE_INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, "int8"},
    {EE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, "uint8"},
    {EE_UINT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, "uint16"},
    {EE_UINT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, "uint32"},
    {EE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32"},
    {EE_INT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64"},
};

const TypeName* FindType(ONNXTensorElementDataType onnx) {
  for (const TypeName& known : kTypes) {
    if (known.onnx == onnx) return &known;
  }
  return nullptr;
}

// Writes "int32 or int64".
Message& operator<<(Message& message, TypeSet types) {
  const char* separator = "";
  for (const TypeName& known : kTypes) {
    if ((types & Only(known.type)) == 0) continue;
    message << separator << known.name;
    separator = " or ";
  }
  return message;
}

OrtStatus* FailMissing(const Node& node, const char* name) {
  Message message = Begin(node);
  message << "input " << name << " is missing, and the node requires it: export the model again";
  return Fail(node, message);
}

OrtStatus* FailType(const Node& node, ONNXTensorElementDataType got, const InputSpec& spec) {
  Message message = Begin(node);
  message << "got " << spec.name << " of type ";
  if (const TypeName* known = FindType(got)) {
    message << known->name;
  } else {
    message << "number " << int64_t{got} << " of ONNX";
  }
  message << ", expected " << spec.types << ": cast it, or export the model again";
  return Fail(node, message);
}

OrtStatus* ReadShape(const Node& node, const OrtTensorTypeAndShapeInfo* shape, const char* name,
                     Tensor* tensor) {
  const OrtApi& api = *node.api;
  ONNXTensorElementDataType type;
  if (OrtStatus* status = api.GetTensorElementType(shape, &type)) return status;
  const TypeName* known = FindType(type);
  if (known == nullptr) return FailType(node, type, {name, ~TypeSet{0}});
  tensor->type = known->type;
  if (OrtStatus* status = api.GetDimensionsCount(shape, &tensor->rank)) return status;
  if (tensor->rank > kMaxRank) {
    Message message = Begin(node);
    message << name << " has " << static_cast<int64_t>(tensor->rank) << " dimensions; expected at most "
            << static_cast<int64_t>(kMaxRank) << ": reshape it";
    return Fail(node, message);
  }
  if (OrtStatus* status = api.GetDimensions(shape, tensor->dims, tensor->rank)) return status;
  return api.GetTensorShapeElementCount(shape, &tensor->count);
}

}  // namespace

Message Begin(const Node& node) {
  Message message;
  message << kDomain << "." << node.op << ": ";
  return message;
}

OrtStatus* Fail(const Node& node, const Message& message) {
  return node.api->CreateStatus(ORT_INVALID_ARGUMENT, message.text());
}

OrtStatus* CheckInputType(const Node& node, const OrtKernelInfo* info, size_t index, const InputSpec& spec) {
  const OrtApi& api = *node.api;
  OrtTypeInfo* type_info = nullptr;
  if (OrtStatus* status = api.KernelInfo_GetInputTypeInfo(info, index, &type_info)) {
    api.ReleaseStatus(status);
    return FailMissing(node, spec.name);  // an optional input that is absent before one that is present
  }
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;  // stays null if the value is no tensor
  OrtStatus* status = api.CastTypeInfoToTensorInfo(type_info, &tensor);
  if (status == nullptr && tensor != nullptr) status = api.GetTensorElementType(tensor, &type);
  api.ReleaseTypeInfo(type_info);
  if (status != nullptr) return status;
  const TypeName* known = FindType(type);
  return known != nullptr && (spec.types & Only(known->type)) != 0 ? nullptr : FailType(node, type, spec);
}

OrtStatus* ReadTensor(const Node& node, const OrtValue* value, const char* name, Tensor* tensor) {
  const OrtApi& api = *node.api;
  if (value == nullptr) return FailMissing(node, name);
  OrtTensorTypeAndShapeInfo* shape = nullptr;
  if (OrtStatus* status = api.GetTensorTypeAndShape(value, &shape)) return status;
  OrtStatus* status = ReadShape(node, shape, name, tensor);
  api.ReleaseTensorTypeAndShapeInfo(shape);
  if (status != nullptr) return status;

  // The C API has no const form of this call, which only reads.
  void* data = nullptr;
  if (OrtStatus* failed = api.GetTensorMutableData(const_cast<OrtValue*>(value), &data)) return failed;
  tensor->data = data;
  return nullptr;
}

OrtStatus* ReadInput(const Node& node, const OrtKernelContext* context, size_t index, const char* name,
                     Tensor* tensor) {
  const OrtValue* value = nullptr;
  if (OrtStatus* status = node.api->KernelContext_GetInput(context, index, &value)) return status;
  return ReadTensor(node, value, name, tensor);
}

OrtStatus* MakeOutput(const Node& node, OrtKernelContext* context, size_t index, const int64_t* dims,
                      size_t rank, ee_type type, Output* output) {
  OrtValue* value = nullptr;
  if (OrtStatus* status = node.api->KernelContext_GetOutput(context, index, dims, rank, &value))
    return status;
  output->type = type;
  return node.api->GetTensorMutableData(value, &output->data);
}

OrtStatus* ReadInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value) {
  OrtStatus* status = node.api->KernelInfoGetAttribute_int64(info, attribute, value);
  if (status == nullptr) return nullptr;
  node.api->ReleaseStatus(status);
  Message message = Begin(node);
  message << "got no integer attribute " << attribute
          << ", which every node requires: export the model again";
  return Fail(node, message);
}

bool ReadOptionalInt(const Node& node, const OrtKernelInfo* info, const char* attribute, int64_t* value) {
  int64_t stored;
  if (OrtStatus* absent = node.api->KernelInfoGetAttribute_int64(info, attribute, &stored)) {
    node.api->ReleaseStatus(absent);
    return false;
  }
  *value = stored;
  return true;
}

OrtStatus* CheckFormatVersion(const Node& node, const OrtKernelInfo* info) {
  int64_t version = 0;
  if (OrtStatus* status = ReadInt(node, info, "format_version", &version)) return status;
  if (version == kFormatVersion) return nullptr;
  Message message = Begin(node);
  message << "got format_version " << version << ", expected " << kFormatVersion << " (operator library "
          << EDGE_EMBED_VERSION << "): "
          << (version > kFormatVersion ? "upgrade edge-embed where the model runs"
                                       : "export the model again with this version of edge-embed");
  return Fail(node, message);
}

void Free(const OrtApi& api, OrtAllocator* allocator, void* memory) {
  if (memory == nullptr) return;
  // No caller is left that could report a failure.
  if (OrtStatus* status = api.AllocatorFree(allocator, memory)) api.ReleaseStatus(status);
}

ONNXTensorElementDataType OnnxType(ee_type type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.onnx;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Message& operator<<(Message& message, const Tensor& tensor) {
  message << "[";
  for (size_t i = 0; i < tensor.rank; ++i) message << (i == 0 ? "" : ", ") << tensor.dims[i];
  return message << "]";
}

}  // namespace edge_embed::ort
