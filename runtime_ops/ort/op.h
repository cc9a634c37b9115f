// One ONNX operator from a method and a use: twelve operators, each registered once for every type that the
// input may have which decides the output's type: float32 and float16, and for rows and bags of DPQ int8,
// which gives float32.
//
// A method (ort/<method>.cc) is
//   Table, Attributes
//   kRows, kBag, kLogits, kTopK     names of its four operators
//   kTensors                        its inputs, in order; from kRequired on they may be left out
//   kFloatTensor                    the one whose type the rows have, or float32 where it is int8
//   ReadAttributes(node, info, Attributes*)
//   MakeTable(node, attributes, tensors, number of tensors, Table*)    checks everything
//   Prepare<Use>(info, TableKernel*)    may make more of a constant table, in memory of the kernel
// and a use (ort/rows.h, bag.h, logits.h, topk.h) is
//   Name<Method>()
//   kInputs                         what comes before the table
//   kFloatInput                     the one whose type the output has; none: the table's
//   kOutputs                        1, or 2 where int64 [...] follows the first
//   kMakesRows                      whether it makes rows, or takes them apart as heads do
//   Attributes, ReadAttributes(node, info, Attributes*)
//   Compute(node, attributes, context, table, type of the output)
// Here is what differs between operators; what they share, such as all that the runtime asks of them, is
// compiled once (ort/op.cc).
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
constexpr ee_type kDecidingTypes[] = {EE_FLOAT32, EE_FLOAT16, EE_INT8};  // all that any operator has

template <typename T, size_t count>
constexpr size_t CountOf(const T (&)[count]) {
  return count;
}

struct KernelBase;

// One operator, for all types that it is registered for.
struct OpSpec {
  const char* name;
  const InputSpec* inputs;   // [num_inputs], of the use
  const InputSpec* tensors;  // [num_tensors], of the method, after those
  size_t num_inputs;
  size_t num_tensors;
  size_t num_required;  // of the tensors
  size_t num_outputs;
  size_t deciding_input;
  size_t kernel_bytes;
  // Makes the kernel in `memory` out of its base and what is the method's and the use's own.
  OrtStatus* (*fill)(const OrtKernelInfo* info, const KernelBase& base, void* memory);
  OrtStatus* (*compute)(void* kernel, OrtKernelContext* context);

  constexpr const InputSpec& Input(size_t index) const {
    return index < num_inputs ? inputs[index] : tensors[index - num_inputs];
  }
};

// An operator for one type of the deciding input, as the runtime knows it.
struct Op : OrtCustomOp {
  const OpSpec* spec;
  ee_type deciding;
};

Op MakeOp(const OpSpec& spec, ee_type deciding);

// Kernels are immutable after creation, so any number of threads may run them.
struct KernelBase {
  Node node;
  const OpSpec* spec;
  OrtAllocator* allocator;  // where the kernel itself lives
  void* prepared;           // what its method made of the table, there too; null: nothing
  ee_type type;             // of the output
  size_t num_tensors;
  bool table_is_constant;  // the runtime keeps constants in place: checked once, `table` stays valid
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

// The same when the session is made. Notes whether all are constant: if not, `tensors` lacks some.
OrtStatus* ReadConstantTensors(const OrtKernelInfo* info, KernelBase* kernel, Tensor* tensors);

// The attribute memory_bytes: how much memory a session may take to be faster, for each node. *bytes stays
// where there is none.
OrtStatus* ReadMemoryBytes(const Node& node, const OrtKernelInfo* info, uint64_t* bytes);

// False where there is no such memory: the kernel works without it.
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
