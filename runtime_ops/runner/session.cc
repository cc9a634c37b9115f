#include "runner/session.h"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace edge_embed::runner {
namespace {

constexpr uint32_t kOldestApi = 17;

// Strings as lengths and bytes, one after another.
std::vector<std::string> SplitStrings(const NamedTensor& tensor) {
  std::vector<std::string> strings;
  const std::vector<uint8_t>& data = tensor.data;
  for (size_t at = 0; at != data.size();) {
    uint64_t length = 0;
    if (data.size() - at < sizeof length) throw std::runtime_error(tensor.name + ": strings are cut");
    std::memcpy(&length, data.data() + at, sizeof length);
    at += sizeof length;
    if (length > data.size() - at) throw std::runtime_error(tensor.name + ": strings are cut");
    strings.emplace_back(data.begin() + static_cast<std::ptrdiff_t>(at),
                         data.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return strings;
}

std::vector<uint8_t> JoinStrings(const std::vector<uint8_t>& text, const std::vector<size_t>& offsets) {
  std::vector<uint8_t> data;
  for (size_t index = 0; index < offsets.size(); ++index) {
    const size_t end = index + 1 < offsets.size() ? offsets[index + 1] : text.size();
    const uint64_t length = end - offsets[index];
    const auto* bytes = reinterpret_cast<const uint8_t*>(&length);
    data.insert(data.end(), bytes, bytes + sizeof length);
    data.insert(data.end(), text.begin() + static_cast<std::ptrdiff_t>(offsets[index]),
                text.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return data;
}

// Bytes of an element; throws for an element type that the runner does not support.
size_t ElementSize(uint32_t type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return 8;
    default:
      throw std::runtime_error("got a tensor of element type " + std::to_string(type) +
                               ", which this program does not support");
  }
}

OrtValue* MakeValue(const Runtime& runtime, NamedTensor& tensor) {
  const OrtApi& api = runtime.api();
  const auto type = static_cast<ONNXTensorElementDataType>(tensor.type);
  OrtValue* value = nullptr;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    OrtAllocator* allocator = nullptr;
    runtime.Check(api.GetAllocatorWithDefaultOptions(&allocator));
    runtime.Check(
        api.CreateTensorAsOrtValue(allocator, tensor.dims.data(), tensor.dims.size(), type, &value));
    const std::vector<std::string> strings = SplitStrings(tensor);
    std::vector<const char*> pointers;
    for (const std::string& text : strings) pointers.push_back(text.c_str());
    runtime.Check(api.FillStringTensor(value, pointers.data(), pointers.size()));
    return value;
  }
  OrtMemoryInfo* memory = nullptr;
  runtime.Check(api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  OrtStatus* status = api.CreateTensorWithDataAsOrtValue(
      memory, tensor.data.data(), tensor.data.size(), tensor.dims.data(), tensor.dims.size(), type, &value);
  api.ReleaseMemoryInfo(memory);
  runtime.Check(status);
  return value;
}

NamedTensor ReadValue(const Runtime& runtime, const std::string& name, OrtValue* value) {
  const OrtApi& api = runtime.api();
  NamedTensor tensor;
  tensor.name = name;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  runtime.Check(api.GetTensorTypeAndShape(value, &info));
  ONNXTensorElementDataType type{};
  size_t rank = 0, count = 0;
  runtime.Check(api.GetTensorElementType(info, &type));
  runtime.Check(api.GetDimensionsCount(info, &rank));
  tensor.dims.resize(rank);
  runtime.Check(api.GetDimensions(info, tensor.dims.data(), rank));
  runtime.Check(api.GetTensorShapeElementCount(info, &count));
  api.ReleaseTensorTypeAndShapeInfo(info);
  tensor.type = static_cast<uint32_t>(type);
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    size_t length = 0;
    runtime.Check(api.GetStringTensorDataLength(value, &length));
    std::vector<uint8_t> text(length);
    std::vector<size_t> offsets(count);
    runtime.Check(api.GetStringTensorContent(value, text.data(), length, offsets.data(), count));
    tensor.data = JoinStrings(text, offsets);
    return tensor;
  }
  void* data = nullptr;
  runtime.Check(api.GetTensorMutableData(value, &data));
  const auto* bytes = static_cast<const uint8_t*>(data);
  tensor.data.assign(bytes, bytes + count * ElementSize(tensor.type));
  return tensor;
}

}  // namespace

Runtime::Runtime(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw std::runtime_error(std::string("ONNX Runtime cannot be loaded: ") + dlerror());
  const auto get = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (get == nullptr) throw std::runtime_error(path + ": is not ONNX Runtime, it has no OrtGetApiBase");
  api_ = get()->GetApi(kOldestApi);
  version_ = get()->GetVersionString();
  if (api_ == nullptr)
    throw std::runtime_error(path + ": is ONNX Runtime " + version_ + ", expected 1.17 or newer");
}

void Runtime::Check(OrtStatus* status) const {
  if (status == nullptr) return;
  const std::string message = api_->GetErrorMessage(status);
  api_->ReleaseStatus(status);
  throw std::runtime_error(message);
}

Case::Case(const Runtime& runtime, std::vector<NamedTensor> inputs,
           const std::vector<std::string>& output_names)
    : runtime_(runtime),
      inputs_(std::move(inputs)),
      output_names_(output_names),
      results_(output_names.size()) {
  for (NamedTensor& input : inputs_) {
    input_pointers_.push_back(input.name.c_str());
    values_.push_back(MakeValue(runtime, input));
  }
  for (const std::string& name : output_names_) output_pointers_.push_back(name.c_str());
}

Case::~Case() {
  for (OrtValue* value : values_) runtime_.api().ReleaseValue(value);
  for (OrtValue* value : results_) runtime_.api().ReleaseValue(value);
}

void Case::Run(OrtSession* session) {
  runtime_.Check(runtime_.api().Run(session, nullptr, input_pointers_.data(), values_.data(), values_.size(),
                                    output_pointers_.data(), output_pointers_.size(), results_.data()));
}

std::vector<NamedTensor> Case::Outputs() const {
  std::vector<NamedTensor> outputs;
  for (size_t index = 0; index < results_.size(); ++index) {
    outputs.push_back(ReadValue(runtime_, output_names_[index], results_[index]));
  }
  return outputs;
}

Session::Session(const Runtime& runtime, const std::string& model, const std::vector<std::string>& libraries,
                 int threads)
    : runtime_(runtime) {
  const OrtApi& api = runtime.api();
  runtime.Check(api.CreateEnv(ORT_LOGGING_LEVEL_FATAL, "edge_embed_runner", &env_));
  runtime.Check(api.DisableTelemetryEvents(env_));  // a measurement sends no telemetry
  OrtSessionOptions* options = nullptr;
  runtime.Check(api.CreateSessionOptions(&options));
  runtime.Check(api.SetIntraOpNumThreads(options, threads));
  for (const std::string& library : libraries)
    runtime.Check(api.RegisterCustomOpsLibrary_V2(options, library.c_str()));
  OrtStatus* status = api.CreateSession(env_, model.c_str(), options, &session_);
  api.ReleaseSessionOptions(options);
  runtime.Check(status);
}

Session::~Session() {
  runtime_.api().ReleaseSession(session_);
  runtime_.api().ReleaseEnv(env_);
}

std::vector<std::string> Session::OutputNames() const {
  const OrtApi& api = runtime_.api();
  OrtAllocator* allocator = nullptr;
  runtime_.Check(api.GetAllocatorWithDefaultOptions(&allocator));
  size_t count = 0;
  runtime_.Check(api.SessionGetOutputCount(session_, &count));
  std::vector<std::string> names;
  for (size_t index = 0; index < count; ++index) {
    char* name = nullptr;
    runtime_.Check(api.SessionGetOutputName(session_, index, allocator, &name));
    names.emplace_back(name);
    runtime_.Check(api.AllocatorFree(allocator, name));
  }
  return names;
}

}  // namespace edge_embed::runner
