// An ONNX operator, made from a method and a use. Each is registered once for every type of the input that
// decides the output type: float32 and float16. Rows and bags of DPQ are also registered for int8, with
// float32 output, and those with row scales a second time for float16, with float32 output.
//
// A method (ort/<method>.cc) has
//   Table, Attributes
//   kRows, kBag, kLogits, kTopK     names of its four operators
//   kTensors                        its inputs, in order; those from kRequired on are optional
//   kFloatTensor                    the input whose type the rows have; float32 if it is int8 or uint8
//   ReadAttributes(node, info, Attributes*)
//   MakeTable(node, attributes, tensors, number of tensors, Table*)    checks everything
//   Prepare<Use>(info, TableKernel*)    prepares a constant table in memory of the kernel
// and a use (ort/rows.h, bag.h, logits.h, topk.h) has
//   Name<Method>()
//   kInputs                         the inputs before the table
//   kFloatInput                     the input whose type the output has; none: that of the table
//   kOutputs                        1, or 2 if int64 [...] is the second output
//   kMakesRows                      true for rows and bags, false for output layers
//   Attributes, ReadAttributes(node, info, Attributes*)
//   Compute(node, attributes, context, table, type of the output)
// This header contains the parts that differ between operators. The common part, such as all callbacks of the
// runtime, is compiled once (ort/op.cc).
//
// The runtime selects the registration by the input that decides the output type. All other types are
// unspecified for the runtime. CheckInputType compares them when the session is created. One registration for
// each combination would need dozens. The error of the runtime for an unknown combination also names no
// cause.
#ifndef EDGE_EMBED_ORT_OP_H_
#define EDGE_EMBED_ORT_OP_H_

#include "kernels/variant.h"
#include "ort/node.h"

namespace edge_embed::ort {

constexpr size_t kNoFloatInput = SIZE_MAX;
constexpr ee_type kDecidingTypes[] = {EE_FLOAT32, EE_FLOAT16, EE_INT8,
                                      EE_UINT8};  // the limit of any operator

template <typename T, size_t count>
constexpr size_t CountOf(const T (&)[count]) {
  return count;
}

struct KernelBase;

// An operator, for all types that it is registered for.
struct OpSpec {
  const char* name;
  const InputSpec* inputs;   // [num_inputs], inputs of the use
  const InputSpec* tensors;  // [num_tensors], tensors of the method, after those inputs
  size_t num_inputs;
  size_t num_tensors;
  size_t num_required;  // number of required tensors
  size_t num_outputs;
  size_t deciding_input;
  size_t kernel_bytes;
  // Creates the kernel in `memory` from its base and the parts of method and use.
  OrtStatus* (*fill)(const OrtKernelInfo* info, const KernelBase& base, void* memory);
  OrtStatus* (*compute)(void* kernel, OrtKernelContext* context);
  // A node that has this number of tensors lacks some before the last ones. Its list follows that of all
  // tensors. 0: missing tensors are the last ones.
  size_t shorter = 0;
  // The input that has row_scale_codes if the deciding input is float16: with it, the output is float32.
  size_t scale_input = kNoFloatInput;

  constexpr const InputSpec& Input(size_t index) const {
    return index < num_inputs ? inputs[index] : tensors[index - num_inputs];
  }
  // The tensors of a node with `count` of them.
  constexpr const InputSpec* Tensors(size_t count) const {
    return tensors + (shorter != 0 && count == shorter ? num_tensors : 0);
  }
};

// An operator for one type of the deciding input, as the runtime registers it.
struct Op : OrtCustomOp {
  const OpSpec* spec;
  ee_type deciding;
  bool scales;  // float16 values and row scales

  ee_type OutputType() const { return deciding == EE_FLOAT16 && !scales ? EE_FLOAT16 : EE_FLOAT32; }
};

Op MakeOp(const OpSpec& spec, ee_type deciding, bool scales);

// Kernels are immutable after creation, so several threads may run them.
struct KernelBase {
  Node node;
  const OpSpec* spec;
  OrtAllocator* allocator;  // the allocator of the kernel itself
  void* prepared;           // prepared data of the method, from the same allocator; null: none
  ee_type type;             // type of the output
  size_t num_tensors;
  bool table_is_constant;  // the runtime keeps constants in place, so `table` is checked once and stays valid
};

template <class Method>
struct TableKernel : KernelBase {
  typename Method::Attributes table_attributes;
  typename Method::Table table;
};

template <class Method, class Use>
struct Kernel : TableKernel<Method> {
  typename Use::Attributes attributes;
};

// The tensors of the table in one call.
OrtStatus* ReadTensors(const KernelBase& kernel, const OrtKernelContext* context, Tensor* tensors);

// The same when the session is created. It records whether all tensors are constant: if not, `tensors` lacks
// some.
OrtStatus* ReadConstantTensors(const OrtKernelInfo* info, KernelBase* kernel, Tensor* tensors);

// The attribute memory_bytes, the limit of the session memory of each node. *bytes is unchanged if the node
// has no such attribute.
OrtStatus* ReadMemoryBytes(const Node& node, const OrtKernelInfo* info, uint64_t* bytes);

// False if the allocation fails: the kernel works without this memory.
bool AllocatePrepared(KernelBase* kernel, uint64_t bytes);

template <class Method>
OrtStatus* ReadTable(const TableKernel<Method>& kernel, const OrtKernelContext* context,
                     typename Method::Table* table) {
  Tensor tensors[CountOf(Method::kTensors)];
  if (OrtStatus* status = ReadTensors(kernel, context, tensors)) return status;
  return Method::MakeTable(kernel.node, kernel.table_attributes, tensors, kernel.num_tensors, table);
}

template <class Method>
OrtStatus* ReadConstantTable(const OrtKernelInfo* info, TableKernel<Method>* kernel) {
  Tensor tensors[CountOf(Method::kTensors)];
  if (OrtStatus* status = ReadConstantTensors(info, kernel, tensors)) return status;
  if (!kernel->table_is_constant) return nullptr;
  return Method::MakeTable(kernel->node, kernel->table_attributes, tensors, kernel->num_tensors,
                           &kernel->table);
}

template <class Method, class Use>
OrtStatus* FillKernel(const OrtKernelInfo* info, const KernelBase& base, void* memory) {
  auto* kernel = static_cast<Kernel<Method, Use>*>(memory);
  *kernel = Kernel<Method, Use>{};
  static_cast<KernelBase&>(*kernel) = base;
  if (OrtStatus* status = Method::ReadAttributes(kernel->node, info, &kernel->table_attributes))
    return status;
  if (OrtStatus* status = Use::ReadAttributes(kernel->node, info, &kernel->attributes)) return status;
  if (OrtStatus* status = ReadConstantTable<Method>(info, kernel)) return status;
  return kernel->table_is_constant ? Method::template Prepare<Use>(info, kernel) : nullptr;
}

template <class Method, class Use>
OrtStatus* Compute(void* data, OrtKernelContext* context) {
  const auto& kernel = *static_cast<const Kernel<Method, Use>*>(static_cast<const KernelBase*>(data));
  typename Method::Table given{};
  const typename Method::Table* table = &kernel.table;
  if (!kernel.table_is_constant) {
    if (OrtStatus* status = ReadTable<Method>(kernel, context, &given)) return status;
    table = &given;
  }
  return Use::Compute(kernel.node, kernel.attributes, context, *table, kernel.type);
}

template <class Method, class Use>
constexpr OpSpec MakeSpec() {
  constexpr size_t before = CountOf(Use::kInputs);
  constexpr bool of_table = Use::kFloatInput == kNoFloatInput;
  return {Use::template Name<Method>(),
          Use::kInputs,
          Method::kTensors,
          before,
          CountOf(Method::kTensors),
          Method::kRequired,
          Use::kOutputs,
          of_table ? before + Method::kFloatTensor : Use::kFloatInput,
          sizeof(Kernel<Method, Use>),
          FillKernel<Method, Use>,
          Compute<Method, Use>};
}

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_OP_H_
