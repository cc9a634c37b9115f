#include "ort/dpq_embedding.h"

#include "ort/dpq_table.h"
#include "ort/parallel.h"

namespace edge_embed::ort {
namespace {

enum Input : size_t { kIds, kCodes, kValues, kNumInputs };

// Immutable after creation, so any number of threads may run it.
struct DpqKernel {
  const OrtApi* api;
  OrtAllocator* allocator;  // where this struct itself lives
  DpqAttributes attributes;
  bool table_is_constant;  // the runtime keeps constants in place: checked once, `table` stays valid
  dpq::Table table;
};

OrtStatus* ReadConstantTable(const OrtKernelInfo* info, DpqKernel* kernel) {
  const OrtApi& api = *kernel->api;
  int codes_constant = 0, values_constant = 0;
  const OrtValue *codes_value = nullptr, *values_value = nullptr;
  if (OrtStatus* status =
          api.KernelInfoGetConstantInput_tensor(info, kCodes, &codes_constant, &codes_value)) {
    return status;
  }
  if (OrtStatus* status =
          api.KernelInfoGetConstantInput_tensor(info, kValues, &values_constant, &values_value)) {
    return status;
  }
  kernel->table_is_constant = codes_constant != 0 && values_constant != 0;
  if (!kernel->table_is_constant) return nullptr;

  Tensor codes, values;
  if (OrtStatus* status = ReadTensor(api, codes_value, "codes", &codes)) return status;
  if (OrtStatus* status = ReadTensor(api, values_value, "values", &values)) return status;
  return MakeDpqTable(api, kernel->attributes, codes, values, &kernel->table);
}

OrtStatus* ReadTable(const DpqKernel& kernel, const OrtKernelContext* context, dpq::Table* table) {
  const OrtApi& api = *kernel.api;
  Tensor codes, values;
  if (OrtStatus* status = ReadInput(api, context, kCodes, "codes", &codes)) return status;
  if (OrtStatus* status = ReadInput(api, context, kValues, "values", &values)) return status;
  return MakeDpqTable(api, kernel.attributes, codes, values, table);
}

OrtStatus* FillKernel(const OrtKernelInfo* info, DpqKernel* kernel) {
  const OrtApi& api = *kernel->api;
  if (OrtStatus* status = CheckFormatVersion(api, info, kDpqEmbedding)) return status;
  if (OrtStatus* status = ReadDpqAttributes(api, info, &kernel->attributes)) return status;
  return ReadConstantTable(info, kernel);
}

void DestroyKernel(void* data) {
  DpqKernel* kernel = static_cast<DpqKernel*>(data);
  if (kernel == nullptr) return;
  // Nobody is left to hear of a failure to free.
  if (OrtStatus* status = kernel->api->AllocatorFree(kernel->allocator, kernel)) {
    kernel->api->ReleaseStatus(status);
  }
}

OrtStatus* CreateKernel(const OrtCustomOp*, const OrtApi* api, const OrtKernelInfo* info, void** out) {
  *out = nullptr;
  OrtAllocator* allocator = nullptr;
  void* memory = nullptr;
  if (OrtStatus* status = api->GetAllocatorWithDefaultOptions(&allocator)) return status;
  if (OrtStatus* status = api->AllocatorAlloc(allocator, sizeof(DpqKernel), &memory)) return status;

  DpqKernel* kernel = static_cast<DpqKernel*>(memory);
  *kernel = DpqKernel{};
  kernel->api = api;
  kernel->allocator = allocator;
  if (OrtStatus* status = FillKernel(info, kernel)) {
    DestroyKernel(kernel);
    return status;
  }
  *out = kernel;
  return nullptr;
}

OrtStatus* FailOutputSize(const OrtApi& api, const dpq::Table& table, size_t num_ids) {
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": " << StatusMessage(EE_SIZE_OVERFLOW) << "; got "
          << static_cast<int64_t>(num_ids) << " ids of a table with num_groups=" << table.num_groups
          << " and group_width=" << table.group_width << ": run fewer ids at a time";
  return Fail(api, message);
}

OrtStatus* FailBadId(const OrtApi& api, const dpq::Table& table, int64_t id, size_t position) {
  Message message;
  message << kDomain << "." << kDpqEmbedding << ": got id " << id << " at position "
          << static_cast<int64_t>(position) << " of the flattened ids, expected 0 <= id < "
          << table.num_embeddings << " (the rows of the table): correct the ids";
  return Fail(api, message);
}

// The output [*ids.shape, row_floats], allocated by the runtime.
OrtStatus* MakeOutput(const OrtApi& api, OrtKernelContext* context, const Tensor& ids, int64_t row_floats,
                      float** rows) {
  int64_t dims[kMaxRank + 1];
  for (size_t i = 0; i < ids.rank; ++i) dims[i] = ids.dims[i];
  dims[ids.rank] = row_floats;
  OrtValue* output = nullptr;
  if (OrtStatus* status = api.KernelContext_GetOutput(context, 0, dims, ids.rank + 1, &output)) {
    return status;
  }
  return api.GetTensorMutableData(output, reinterpret_cast<void**>(rows));
}

// Every block runs to its own first bad id, so the lowest of them is the first of the whole list.
void KeepLowest(size_t position, size_t* lowest) {
  size_t seen = __atomic_load_n(lowest, __ATOMIC_RELAXED);
  while (position < seen &&
         !__atomic_compare_exchange_n(lowest, &seen, position, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

template <typename Id>
OrtStatus* Gather(const OrtApi& api, const OrtKernelContext* context, const dpq::Table& table,
                  const Tensor& ids, float* rows) {
  size_t row_bytes;
  if (!dpq::OutputBytes(table, 1, &row_bytes)) return FailOutputSize(api, table, 1);
  const Id* id_list = static_cast<const Id*>(ids.data);
  size_t first_bad = SIZE_MAX;
  const auto work = [&](size_t begin, size_t end) {
    size_t bad;
    if (dpq::GatherF32Reference(table, id_list, begin, end, rows, &bad) != EE_OK) KeepLowest(bad, &first_bad);
  };
  if (OrtStatus* status = ForRows(api, context, ids.count, row_bytes, work)) return status;
  return first_bad == SIZE_MAX ? nullptr : FailBadId(api, table, id_list[first_bad], first_bad);
}

template <typename Id>
OrtStatus* Compute(void* data, OrtKernelContext* context) {
  const DpqKernel& kernel = *static_cast<const DpqKernel*>(data);
  const OrtApi& api = *kernel.api;
  dpq::Table table = kernel.table;
  if (!kernel.table_is_constant) {
    if (OrtStatus* status = ReadTable(kernel, context, &table)) return status;
  }
  Tensor ids;
  if (OrtStatus* status = ReadInput(api, context, kIds, "ids", &ids)) return status;
  size_t output_bytes;
  if (!dpq::OutputBytes(table, ids.count, &output_bytes)) return FailOutputSize(api, table, ids.count);
  float* rows = nullptr;
  if (OrtStatus* status = MakeOutput(api, context, ids, table.num_groups * table.group_width, &rows)) {
    return status;
  }
  return ids.count == 0 ? nullptr : Gather<Id>(api, context, table, ids, rows);
}

const char* Name(const OrtCustomOp*) { return kDpqEmbedding; }

const char* CpuProvider(const OrtCustomOp*) { return nullptr; }

template <ONNXTensorElementDataType ids_type>
ONNXTensorElementDataType InputType(const OrtCustomOp*, size_t index) {
  if (index == kIds) return ids_type;
  return index == kCodes ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

size_t InputCount(const OrtCustomOp*) { return kNumInputs; }

ONNXTensorElementDataType OutputType(const OrtCustomOp*, size_t) {
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

size_t OutputCount(const OrtCustomOp*) { return 1; }

OrtCustomOpInputOutputCharacteristic Required(const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; }

OrtMemType DefaultMemory(const OrtCustomOp*, size_t) { return OrtMemTypeDefault; }

// The runtime asks for these even though nothing here is variadic.
int VariadicCount(const OrtCustomOp*) { return 0; }

// The runtime reads only the fields that kOrtApiVersion has, however new the header is.
template <typename Id, ONNXTensorElementDataType ids_type>
constexpr OrtCustomOp MakeOp() {
  OrtCustomOp op{};
  op.version = kOrtApiVersion;
  op.GetName = Name;
  op.GetExecutionProviderType = CpuProvider;
  op.GetInputType = InputType<ids_type>;
  op.GetInputTypeCount = InputCount;
  op.GetOutputType = OutputType;
  op.GetOutputTypeCount = OutputCount;
  op.KernelDestroy = DestroyKernel;
  op.GetInputCharacteristic = Required;
  op.GetOutputCharacteristic = Required;
  op.GetInputMemoryType = DefaultMemory;
  op.GetVariadicInputMinArity = VariadicCount;
  op.GetVariadicInputHomogeneity = VariadicCount;
  op.GetVariadicOutputMinArity = VariadicCount;
  op.GetVariadicOutputHomogeneity = VariadicCount;
  op.CreateKernelV2 = CreateKernel;
  op.KernelComputeV2 = Compute<Id>;
  return op;
}

}  // namespace

constexpr OrtCustomOp kDpqEmbeddingInt32 = MakeOp<int32_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32>();
constexpr OrtCustomOp kDpqEmbeddingInt64 = MakeOp<int64_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64>();

}  // namespace edge_embed::ort
