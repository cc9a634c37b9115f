// A fake runtime of TFLite with the parts that a delegate uses: tensors, operators that never run, and
// metadata. Data of tensors are heap blocks of exactly their size, so that AddressSanitizer detects any
// access outside them.
#ifndef EDGE_EMBED_TESTS_FAKE_TFLITE_H_
#define EDGE_EMBED_TESTS_FAKE_TFLITE_H_

#include <cstdlib>
#include <list>
#include <string>
#include <vector>

#include "tests/fuzz_input.h"
#include "tflite/abi.h"

namespace edge_embed::testing {

using Ints = std::vector<int>;

// An IntArray is the number of integers, followed by the integers.
inline tflite::IntArray* AsArray(Ints& ints) { return reinterpret_cast<tflite::IntArray*>(ints.data()); }
inline Ints WithSize(Ints ints) {
  ints.insert(ints.begin(), static_cast<int>(ints.size()));
  return ints;
}

class FakeTflite {
 public:
  FakeTflite() {
    context_.impl = this;
    context_.GetExecutionPlan = [](tflite::Context* context, tflite::IntArray** plan) {
      *plan = AsArray(Of(context).plan_);
      return tflite::kOk;
    };
    context_.ResizeTensor = [](tflite::Context*, tflite::Tensor* tensor, tflite::IntArray* dims) {
      const tflite::Status status = Resize(tensor, Ints(dims->data, dims->data + dims->size));
      std::free(dims);
      return status;
    };
    context_.ReportError = CountReport;
    context_.GetNodeAndRegistration = [](tflite::Context* context, int index, tflite::Node** node,
                                         tflite::Registration**) {
      *node = &Of(context).nodes_[static_cast<size_t>(index)].node;
      return tflite::kOk;
    };
    context_.PreviewDelegatePartitioning = [](tflite::Context* context, const tflite::IntArray* nodes,
                                              tflite::DelegateParams** params, int* count) {
      *params = Of(context).Partition(nodes);
      *count = 1;
      return tflite::kOk;
    };
    context_.ReplaceNodeSubsetsWithDelegateKernels =
        [](tflite::Context* context, tflite::Registration registration, const tflite::IntArray* nodes,
           tflite::Delegate* delegate) { return Of(context).Replace(registration, nodes, delegate); };
    context_.GetModelMetadata = [](const tflite::Context* context, const char*, const char** data,
                                   size_t* bytes) {
      const Block& manifest = *static_cast<FakeTflite*>(context->impl)->manifest_;
      *data = reinterpret_cast<const char*>(manifest.data.get());
      *bytes = manifest.size;
      return tflite::kOk;
    };
  }

  ~FakeTflite() {
    for (Kernel& kernel : kernels_) kernel.registration.free(&context_, kernel.node.user_data);
    for (const tflite::Tensor& tensor : tensors_) {
      std::free(tensor.data);
      std::free(tensor.dims);
    }
  }

  int AddTensor(const std::string& name, tflite::TensorType type, const Ints& dims,
                tflite::Allocation allocation) {
    tflite::Tensor tensor{};
    tensor.type = type;
    tensor.name = names_.emplace_back(name).c_str();
    Resize(&tensor, dims);
    tensor.allocation_type = allocation;
    tensors_.push_back(tensor);
    return static_cast<int>(tensors_.size()) - 1;
  }

  // A constant with these bytes.
  int AddConstant(const std::string& name, tflite::TensorType type, const Block& content) {
    const int index = AddTensor(name, type, {}, tflite::kConstant);
    tflite::Tensor& tensor = tensors_.back();
    std::free(tensor.data);
    tensor.data = std::malloc(content.size);
    tensor.bytes = content.size;
    if (content.size > 0) std::memcpy(tensor.data, content.data.get(), content.size);
    return index;
  }

  void AddNode(const Ints& inputs, const Ints& outputs) {
    nodes_.push_back({WithSize(inputs), WithSize(outputs), {}});
    Operator& added = nodes_.back();
    added.node.inputs = AsArray(added.inputs);
    added.node.outputs = AsArray(added.outputs);
  }

  tflite::Tensor& tensor(int index) { return tensors_[static_cast<size_t>(index)]; }

  tflite::Status Apply(tflite::Delegate* delegate, const std::string& manifest) {
    manifest_ = std::make_unique<Block>(manifest.size());
    if (!manifest.empty()) std::memcpy(manifest_->data.get(), manifest.data(), manifest.size());
    plan_ = {static_cast<int>(nodes_.size())};
    for (int i = 0; i < plan_[0]; ++i) plan_.push_back(i);
    context_.tensors = tensors_.data();
    context_.tensors_size = tensors_.size();
    return delegate->Prepare(&context_, delegate);
  }

  tflite::Status Run() {
    for (Kernel& kernel : kernels_) {
      if (kernel.registration.prepare(&context_, &kernel.node) != tflite::kOk) return tflite::kError;
    }
    for (Kernel& kernel : kernels_) {
      if (kernel.registration.invoke(&context_, &kernel.node) != tflite::kOk) return tflite::kError;
    }
    return tflite::kOk;
  }

  size_t num_kernels() const { return kernels_.size(); }

  int reports = 0;

 private:
  struct Operator {
    Ints inputs, outputs;
    tflite::Node node;
  };
  struct Kernel {
    tflite::Registration registration;
    tflite::Node node;
  };

  static FakeTflite& Of(tflite::Context* context) { return *static_cast<FakeTflite*>(context->impl); }

  static void CountReport(tflite::Context* context, const char*, ...) { ++Of(context).reports; }

  static tflite::Status Resize(tflite::Tensor* tensor, const Ints& dims) {
    if (tensor->allocation_type == tflite::kConstant) return tflite::kError;
    const bool wide = tensor->type == tflite::kInt64;
    size_t bytes = wide ? 8 : 4;
    for (const int size : dims) {
      if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) return tflite::kError;
    }
    if (bytes > kMaxScratch) return tflite::kError;
    std::free(tensor->data);
    std::free(tensor->dims);
    tensor->data = std::calloc(bytes, 1);
    tensor->bytes = bytes;
    tensor->dims = static_cast<tflite::IntArray*>(std::malloc(sizeof(int) * (dims.size() + 1)));
    tensor->dims->size = static_cast<int>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) tensor->dims->data[i] = dims[i];
    return tflite::kOk;
  }

  tflite::DelegateParams* Partition(const tflite::IntArray* nodes) {
    inputs_.clear();
    outputs_.clear();
    for (int i = 0; i < nodes->size; ++i) {
      const Operator& each = nodes_[static_cast<size_t>(nodes->data[i])];
      inputs_.insert(inputs_.end(), each.inputs.begin() + 1, each.inputs.end());
      outputs_.insert(outputs_.end(), each.outputs.begin() + 1, each.outputs.end());
    }
    inputs_ = WithSize(inputs_);
    outputs_ = WithSize(outputs_);
    params_ = {nullptr, nullptr, AsArray(inputs_), AsArray(outputs_)};
    return &params_;
  }

  tflite::Status Replace(const tflite::Registration& registration, const tflite::IntArray* nodes,
                         tflite::Delegate* delegate) {
    tflite::DelegateParams* const params = Partition(nodes);
    params->delegate = delegate;
    Kernel kernel{registration, {}};
    kernel.node.user_data = registration.init(&context_, reinterpret_cast<const char*>(params), 0);
    kernels_.push_back(kernel);
    return tflite::kOk;
  }

  tflite::Context context_{};
  std::vector<tflite::Tensor> tensors_;
  std::list<std::string> names_;
  std::list<Kernel> kernels_;
  std::vector<Operator> nodes_;
  Ints plan_, inputs_, outputs_;
  tflite::DelegateParams params_{};
  std::unique_ptr<Block> manifest_;
};

}  // namespace edge_embed::testing

#endif  // EDGE_EMBED_TESTS_FAKE_TFLITE_H_
