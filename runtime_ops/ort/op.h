// One ONNX operator from a method and a use: twelve operators, each registered for float32 and for float16,
// and rows and bags of DPQ for int8, which gives float32.
//
// A method (ort/<method>.cc) is
//   Table, Attributes
//   kRows, kBag, kLogits, kTopK     names of its four operators
//   kTensors                        its inputs, in order; from kRequired on they may be left out
//   kFloatTensor                    the one whose type the rows have, or float32 where it is int8
//   ReadAttributes(node, info, Attributes*)
//   MakeTable(node, attributes, tensors, number of tensors, Table*)    checks everything
// and a use (ort/rows.h, bag.h, logits.h, topk.h) is
//   Name<Method>()
//   kInputs                         what comes before the table
//   kFloatInput                     the one whose type the output has; none: the table's
//   kOutputs                        1, or 2 where int64 [...] follows the first
//   Attributes, ReadAttributes(node, info, Attributes*)
//   Compute(node, attributes, context, table, type of the output)
//
// The runtime chooses the registration by the input that decides the output's type. It is told nothing of the
// others' types, which CheckInputType compares when the session is made: one registration for every mixture
// would be dozens, and the runtime's own text for a type that none of them has does not say what is wrong.
#ifndef EDGE_EMBED_ORT_OP_H_
#define EDGE_EMBED_ORT_OP_H_

#include "kernels/variant.h"
#include "ort/node.h"

namespace edge_embed::ort {

constexpr size_t kNoFloatInput = SIZE_MAX;

template <typename T, size_t count>
constexpr size_t CountOf(const T (&)[count]) {
  return count;
}

template <class Method, class Use>
struct Inputs {
  static constexpr size_t kBefore = CountOf(Use::kInputs);
  static constexpr size_t kAll = kBefore + CountOf(Method::kTensors);
  static constexpr size_t kFloat =
      Use::kFloatInput != kNoFloatInput ? Use::kFloatInput : kBefore + Method::kFloatTensor;

  static constexpr InputSpec At(size_t index) {
    return index < kBefore ? Use::kInputs[index] : Method::kTensors[index - kBefore];
  }
};

// Immutable after creation, so any number of threads may run it.
template <class Method, class Use>
struct Kernel {
  Node node;
  OrtAllocator* allocator;  // where this struct itself lives
  typename Method::Attributes table_attributes;
  typename Use::Attributes attributes;
  size_t num_tensors;
  bool table_is_constant;  // the runtime keeps constants in place: checked once, `table` stays valid
  typename Method::Table table;
};

// Reads the tensors of the table by read(index of the input, name, tensor), then makes the table.
template <class Method, class Use, typename Read>
OrtStatus* MakeTable(const Kernel<Method, Use>& kernel, const Read& read, typename Method::Table* table) {
  Tensor tensors[CountOf(Method::kTensors)];
  for (size_t i = 0; i < kernel.num_tensors; ++i) {
    const size_t index = Inputs<Method, Use>::kBefore + i;
    if (OrtStatus* status = read(index, Method::kTensors[i].name, &tensors[i])) return status;
  }
  return Method::MakeTable(kernel.node, kernel.table_attributes, tensors, kernel.num_tensors, table);
}

template <class Method, class Use>
OrtStatus* ReadConstantTable(const OrtKernelInfo* info, Kernel<Method, Use>* kernel) {
  const OrtValue* values[CountOf(Method::kTensors)] = {};
  kernel->table_is_constant = true;
  for (size_t i = 0; i < kernel->num_tensors; ++i) {
    int is_constant = 0;
    if (OrtStatus* status = kernel->node.api->KernelInfoGetConstantInput_tensor(
            info, Inputs<Method, Use>::kBefore + i, &is_constant, &values[i])) {
      return status;
    }
    kernel->table_is_constant = kernel->table_is_constant && is_constant != 0;
  }
  if (!kernel->table_is_constant) return nullptr;
  const auto read = [&](size_t index, const char* name, Tensor* tensor) {
    return ReadTensor(kernel->node, values[index - Inputs<Method, Use>::kBefore], name, tensor);
  };
  return MakeTable(*kernel, read, &kernel->table);
}

// How many tensors the table has. The runtime has compared the number of inputs with the operator's.
template <class Method, class Use>
OrtStatus* CheckInputs(const OrtKernelInfo* info, Kernel<Method, Use>* kernel) {
  size_t count = 0;
  if (OrtStatus* status = kernel->node.api->KernelInfo_GetInputCount(info, &count)) return status;
  for (size_t i = 0; i < count; ++i) {
    if (OrtStatus* status = CheckInputType(kernel->node, info, i, Inputs<Method, Use>::At(i))) return status;
  }
  kernel->num_tensors = count - Inputs<Method, Use>::kBefore;
  return nullptr;
}

// Who forces kernels wants to measure or test them, and no others in their place.
inline OrtStatus* CheckVariant(const Node& node) {
  const char* refused = RefusedVariant();
  if (refused == nullptr) return nullptr;
  Message message = Begin(node);
  message << "EDGE_EMBED_FORCE_ISA is " << refused
          << ", expected one that this library has and the processor runs:";
  for (size_t i = 0; i < kNumVariants; ++i) {
    if (kVariants[i]->runs_here()) message << " " << kVariants[i]->name;
  }
  return Fail(node, message);
}

template <class Method, class Use>
OrtStatus* FillKernel(const OrtKernelInfo* info, Kernel<Method, Use>* kernel) {
  if (OrtStatus* status = CheckVariant(kernel->node)) return status;
  if (OrtStatus* status = CheckFormatVersion(kernel->node, info)) return status;
  if (OrtStatus* status = Method::ReadAttributes(kernel->node, info, &kernel->table_attributes))
    return status;
  if (OrtStatus* status = Use::ReadAttributes(kernel->node, info, &kernel->attributes)) return status;
  if (OrtStatus* status = CheckInputs(info, kernel)) return status;
  return ReadConstantTable(info, kernel);
}

template <class Method, class Use>
void DestroyKernel(void* data) {
  auto* kernel = static_cast<Kernel<Method, Use>*>(data);
  if (kernel == nullptr) return;
  const OrtApi& api = *kernel->node.api;
  // Nobody is left to hear of a failure to free.
  if (OrtStatus* status = api.AllocatorFree(kernel->allocator, kernel)) api.ReleaseStatus(status);
}

template <class Method, class Use>
OrtStatus* CreateKernel(const OrtCustomOp*, const OrtApi* api, const OrtKernelInfo* info, void** out) {
  *out = nullptr;
  OrtAllocator* allocator = nullptr;
  void* memory = nullptr;
  if (OrtStatus* status = api->GetAllocatorWithDefaultOptions(&allocator)) return status;
  if (OrtStatus* status = api->AllocatorAlloc(allocator, sizeof(Kernel<Method, Use>), &memory)) return status;

  auto* kernel = static_cast<Kernel<Method, Use>*>(memory);
  *kernel = Kernel<Method, Use>{};
  kernel->node = {api, Use::template Name<Method>()};
  kernel->allocator = allocator;
  if (OrtStatus* status = FillKernel(info, kernel)) {
    DestroyKernel<Method, Use>(kernel);
    return status;
  }
  *out = kernel;
  return nullptr;
}

template <class Method, class Use, ee_type type>
OrtStatus* Compute(void* data, OrtKernelContext* context) {
  const auto& kernel = *static_cast<const Kernel<Method, Use>*>(data);
  if (kernel.table_is_constant) {
    return Use::Compute(kernel.node, kernel.attributes, context, kernel.table, type);
  }
  const auto read = [&](size_t index, const char* name, Tensor* tensor) {
    return ReadInput(kernel.node, context, index, name, tensor);
  };
  typename Method::Table table{};
  if (OrtStatus* status = MakeTable(kernel, read, &table)) return status;
  return Use::Compute(kernel.node, kernel.attributes, context, table, type);
}

constexpr ONNXTensorElementDataType DecidingType(ee_type type) {
  return type == EE_INT8      ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8
         : type == EE_FLOAT16 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
                              : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

constexpr ee_type OutputType(ee_type deciding) { return deciding == EE_FLOAT16 ? EE_FLOAT16 : EE_FLOAT32; }

// The runtime reads only the fields that kOrtApiVersion has, however new the header is.
template <class Method, class Use, ee_type type>
constexpr OrtCustomOp MakeOp() {
  using All = Inputs<Method, Use>;
  OrtCustomOp op{};
  op.version = kOrtApiVersion;
  op.GetName = [](const OrtCustomOp*) { return Use::template Name<Method>(); };
  op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };  // the CPU
  op.GetInputType = [](const OrtCustomOp*, size_t index) {
    return index == All::kFloat ? DecidingType(type) : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  };
  op.GetInputTypeCount = [](const OrtCustomOp*) { return All::kAll; };
  op.GetOutputType = [](const OrtCustomOp*, size_t index) {
    return index == 0 ? DecidingType(OutputType(type)) : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  };
  op.GetOutputTypeCount = [](const OrtCustomOp*) { return Use::kOutputs; };
  op.KernelDestroy = DestroyKernel<Method, Use>;
  op.GetInputCharacteristic = [](const OrtCustomOp*, size_t index) {
    return index < All::kBefore + Method::kRequired ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  // The runtime asks for these even though nothing here is variadic.
  const auto not_variadic = [](const OrtCustomOp*) { return 0; };
  op.GetVariadicInputMinArity = not_variadic;
  op.GetVariadicInputHomogeneity = not_variadic;
  op.GetVariadicOutputMinArity = not_variadic;
  op.GetVariadicOutputHomogeneity = not_variadic;
  op.CreateKernelV2 = CreateKernel<Method, Use>;
  op.KernelComputeV2 = Compute<Method, Use, OutputType(type)>;
  return op;
}

// They live as long as the library.
template <class Method, class Use, ee_type type>
constexpr OrtCustomOp kOp = MakeOp<Method, Use, type>();

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_OP_H_
