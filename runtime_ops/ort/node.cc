#include "ort/node.h"

namespace edge_embed::ort {
namespace {

OrtStatus* ReadShape(const OrtApi& api, const OrtTensorTypeAndShapeInfo* shape, const char* name,
                     Tensor* tensor) {
  if (OrtStatus* status = api.GetDimensionsCount(shape, &tensor->rank)) return status;
  if (tensor->rank > kMaxRank) {
    Message message;
    message << "edge_embed: " << name << " has " << static_cast<int64_t>(tensor->rank)
            << " dimensions; expected at most " << static_cast<int64_t>(kMaxRank) << ": reshape it";
    return Fail(api, message);
  }
  if (OrtStatus* status = api.GetDimensions(shape, tensor->dims, tensor->rank)) return status;
  return api.GetTensorShapeElementCount(shape, &tensor->count);
}

}  // namespace

OrtStatus* Fail(const OrtApi& api, const Message& message) {
  return api.CreateStatus(ORT_INVALID_ARGUMENT, message.text());
}

OrtStatus* ReadTensor(const OrtApi& api, const OrtValue* value, const char* name, Tensor* tensor) {
  if (value == nullptr) {
    Message message;
    message << "edge_embed: input " << name << " is missing; the node needs it: export the model again";
    return Fail(api, message);
  }
  OrtTensorTypeAndShapeInfo* shape = nullptr;
  if (OrtStatus* status = api.GetTensorTypeAndShape(value, &shape)) return status;
  OrtStatus* status = ReadShape(api, shape, name, tensor);
  api.ReleaseTensorTypeAndShapeInfo(shape);
  if (status != nullptr) return status;

  // The C API has no const form of this call; we only read.
  void* data = nullptr;
  if (OrtStatus* failed = api.GetTensorMutableData(const_cast<OrtValue*>(value), &data)) return failed;
  tensor->data = data;
  return nullptr;
}

OrtStatus* ReadInput(const OrtApi& api, const OrtKernelContext* context, size_t index, const char* name,
                     Tensor* tensor) {
  const OrtValue* value = nullptr;
  if (OrtStatus* status = api.KernelContext_GetInput(context, index, &value)) return status;
  return ReadTensor(api, value, name, tensor);
}

OrtStatus* ReadInt(const OrtApi& api, const OrtKernelInfo* info, const char* op, const char* attribute,
                   int64_t* value) {
  OrtStatus* status = api.KernelInfoGetAttribute_int64(info, attribute, value);
  if (status == nullptr) return nullptr;
  api.ReleaseStatus(status);
  Message message;
  message << kDomain << "." << op << ": got no integer attribute " << attribute
          << ", which every node needs: export the model again";
  return Fail(api, message);
}

OrtStatus* CheckFormatVersion(const OrtApi& api, const OrtKernelInfo* info, const char* op) {
  int64_t version = 0;
  if (OrtStatus* status = ReadInt(api, info, op, "format_version", &version)) return status;
  if (version == kFormatVersion) return nullptr;
  Message message;
  message << kDomain << "." << op << ": got format_version " << version << ", expected " << kFormatVersion
          << " (operator library " << EDGE_EMBED_VERSION << "): "
          << (version > kFormatVersion ? "upgrade edge-embed where the model runs"
                                       : "export the model again with this version of edge-embed");
  return Fail(api, message);
}

Message& operator<<(Message& message, const Tensor& tensor) {
  message << "[";
  for (size_t i = 0; i < tensor.rank; ++i) message << (i == 0 ? "" : ", ") << tensor.dims[i];
  return message << "]";
}

}  // namespace edge_embed::ort
