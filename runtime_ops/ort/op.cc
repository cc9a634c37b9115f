#include "ort/op.h"

namespace edge_embed::ort {
namespace {

const Op& OpOf(const OrtCustomOp* op) { return *static_cast<const Op*>(op); }

// The type of an input that the runtime compares; UNDEFINED: any. The two operators for float16 values differ
// in row_scale_codes, which an input of int8 never is. Without this input, the runtime selects the first one.
ONNXTensorElementDataType ComparedType(const Op& op, size_t index) {
  if (index == op.spec->deciding_input) return OnnxType(op.deciding);
  if (index != op.spec->scale_input || op.deciding != EE_FLOAT16)
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  return OnnxType(op.scales ? EE_UINT8 : EE_INT8);
}

// If a variant is forced, it must run: a measurement or a test of another one would be wrong.
OrtStatus* CheckVariant(const Node& node) {
  const char* refused = RefusedVariant();
  if (refused == nullptr) return nullptr;
  Message message = Begin(node);
  message << "EDGE_EMBED_FORCE_ISA is " << refused
          << ", expected one that the library contains and the processor supports:";
  for (size_t i = 0; i < kNumVariants; ++i) {
    if (kVariants[i]->runs_here()) message << " " << kVariants[i]->name;
  }
  return Fail(node, message);
}

// The number of tensors of the table. The runtime has compared the number of inputs with that of the
// operator.
OrtStatus* CheckInputs(const OrtKernelInfo* info, KernelBase* kernel) {
  size_t count = 0;
  if (OrtStatus* status = kernel->node.api->KernelInfo_GetInputCount(info, &count)) return status;
  const OpSpec& spec = *kernel->spec;
  kernel->num_tensors = count - spec.num_inputs;
  const InputSpec* const tensors = spec.Tensors(kernel->num_tensors);
  for (size_t i = 0; i < count; ++i) {
    const InputSpec& expected = i < spec.num_inputs ? spec.inputs[i] : tensors[i - spec.num_inputs];
    if (OrtStatus* status = CheckInputType(kernel->node, info, i, expected)) return status;
  }
  return nullptr;
}

void DestroyKernel(void* data) {
  auto* kernel = static_cast<KernelBase*>(data);
  if (kernel == nullptr) return;
  const OrtApi& api = *kernel->node.api;
  Free(api, kernel->allocator, kernel->prepared);
  Free(api, kernel->allocator, kernel);
}

OrtStatus* CreateKernel(const OrtCustomOp* custom, const OrtApi* api, const OrtKernelInfo* info, void** out) {
  const OpSpec& spec = *OpOf(custom).spec;
  KernelBase base{};
  base.node = {api, spec.name};
  base.spec = &spec;
  base.type = OpOf(custom).OutputType();
  *out = nullptr;
  if (OrtStatus* status = CheckVariant(base.node)) return status;
  if (OrtStatus* status = CheckFormatVersion(base.node, info)) return status;
  if (OrtStatus* status = CheckInputs(info, &base)) return status;

  void* memory = nullptr;
  if (OrtStatus* status = api->GetAllocatorWithDefaultOptions(&base.allocator)) return status;
  if (OrtStatus* status = api->AllocatorAlloc(base.allocator, spec.kernel_bytes, &memory)) return status;
  if (OrtStatus* status = spec.fill(info, base, memory)) {
    DestroyKernel(memory);
    return status;
  }
  *out = memory;
  return nullptr;
}

}  // namespace

OrtStatus* ReadTensors(const KernelBase& kernel, const OrtKernelContext* context, Tensor* tensors) {
  const OpSpec& spec = *kernel.spec;
  const InputSpec* const names = spec.Tensors(kernel.num_tensors);
  for (size_t i = 0; i < kernel.num_tensors; ++i) {
    if (OrtStatus* status =
            ReadInput(kernel.node, context, spec.num_inputs + i, names[i].name, &tensors[i])) {
      return status;
    }
  }
  return nullptr;
}

OrtStatus* ReadConstantTensors(const OrtKernelInfo* info, KernelBase* kernel, Tensor* tensors) {
  const OpSpec& spec = *kernel->spec;
  const InputSpec* const names = spec.Tensors(kernel->num_tensors);
  for (size_t i = 0; i < kernel->num_tensors; ++i) {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    if (OrtStatus* status = kernel->node.api->KernelInfoGetConstantInput_tensor(info, spec.num_inputs + i,
                                                                                &is_constant, &value)) {
      return status;
    }
    if (is_constant == 0) return nullptr;
    if (OrtStatus* status = ReadTensor(kernel->node, value, names[i].name, &tensors[i])) return status;
  }
  kernel->table_is_constant = true;
  return nullptr;
}

OrtStatus* ReadMemoryBytes(const Node& node, const OrtKernelInfo* info, uint64_t* bytes) {
  int64_t stored = 0;
  if (!ReadOptionalInt(node, info, "memory_bytes", &stored)) return nullptr;
  *bytes = static_cast<uint64_t>(stored);
  if (stored >= 0) return nullptr;
  Message message = Begin(node);
  message << "got memory_bytes=" << stored << ", expected at least 0" << kDamaged;
  return Fail(node, message);
}

bool AllocatePrepared(KernelBase* kernel, uint64_t bytes) {
  const OrtApi& api = *kernel->node.api;
  if (OrtStatus* none = api.AllocatorAlloc(kernel->allocator, bytes, &kernel->prepared)) {
    api.ReleaseStatus(none);
    kernel->prepared = nullptr;
  }
  return kernel->prepared != nullptr;
}

// The runtime reads only the fields of kOrtApiVersion, even if the header is newer.
Op MakeOp(const OpSpec& spec, ee_type deciding, bool scales) {
  Op op{};
  op.spec = &spec;
  op.deciding = deciding;
  op.scales = scales;
  op.version = kOrtApiVersion;
  op.GetName = [](const OrtCustomOp* self) { return OpOf(self).spec->name; };
  op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };  // the CPU
  op.GetInputType = [](const OrtCustomOp* self, size_t index) { return ComparedType(OpOf(self), index); };
  op.GetInputTypeCount = [](const OrtCustomOp* self) {
    return OpOf(self).spec->num_inputs + OpOf(self).spec->num_tensors;
  };
  op.GetOutputType = [](const OrtCustomOp* self, size_t index) {
    return OnnxType(index == 0 ? OpOf(self).OutputType() : EE_INT64);
  };
  op.GetOutputTypeCount = [](const OrtCustomOp* self) { return OpOf(self).spec->num_outputs; };
  op.KernelDestroy = DestroyKernel;
  op.GetInputCharacteristic = [](const OrtCustomOp* self, size_t index) {
    const OpSpec& asked = *OpOf(self).spec;
    return index < asked.num_inputs + asked.num_required ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  // The runtime calls these although no operator is variadic.
  const auto not_variadic = [](const OrtCustomOp*) { return 0; };
  op.GetVariadicInputMinArity = not_variadic;
  op.GetVariadicInputHomogeneity = not_variadic;
  op.GetVariadicOutputMinArity = not_variadic;
  op.GetVariadicOutputHomogeneity = not_variadic;
  op.CreateKernelV2 = CreateKernel;
  op.KernelComputeV2 = spec.compute;
  return op;
}

}  // namespace edge_embed::ort
