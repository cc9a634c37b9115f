// The ONNX operators of TT and TR, version 1. The tensors of a table are
//   core_0 .. core_{N-1}, N = 2 .. 6, each [I_k, R_{k-1}, J_k, R_k], all float32 or all float16.
// Its attributes are format_version, num_embeddings and padding_idx (-1: none); d = J_1 * ... * J_N. Rows and
// bags may have the attribute memory_bytes, the limit for products of the last cores (kernels/tt/merge.h).
// Without it, no product is made.
#include "kernels/tt/merge.h"
#include "ort/bag.h"
#include "ort/buffer.h"
#include "ort/logits.h"
#include "ort/methods.h"
#include "ort/rows.h"
#include "ort/topk.h"

namespace edge_embed::ort {
namespace {

struct Tt {
  static constexpr const char* kRows = "TTEmbedding";
  static constexpr const char* kBag = "TTEmbeddingBag";
  static constexpr const char* kLogits = "TTLogits";
  static constexpr const char* kTopK = "TTTopK";
  static constexpr InputSpec kTensors[] = {{"core_0", kFloats}, {"core_1", kFloats}, {"core_2", kFloats},
                                           {"core_3", kFloats}, {"core_4", kFloats}, {"core_5", kFloats}};
  static constexpr size_t kRequired = EE_MIN_CORES;
  static constexpr size_t kFloatTensor = 0;

  using Table = tt::Table;
  struct Attributes {
    int64_t num_embeddings;
    int64_t padding_idx;
  };
  static OrtStatus* ReadAttributes(const Node& node, const OrtKernelInfo* info, Attributes* attributes) {
    if (OrtStatus* status = ReadInt(node, info, "num_embeddings", &attributes->num_embeddings)) return status;
    return ReadInt(node, info, "padding_idx", &attributes->padding_idx);
  }
  static OrtStatus* MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                              size_t num_tensors, Table* table);
  template <class Use>
  static OrtStatus* Prepare(const OrtKernelInfo* info, TableKernel<Tt>* kernel) {
    return Use::kMakesRows ? PrepareRows(info, kernel) : nullptr;
  }
  static OrtStatus* PrepareRows(const OrtKernelInfo* info, TableKernel<Tt>* kernel);
};
static_assert(CountOf(Tt::kTensors) == EE_MAX_CORES, "one input for each core that a table may have");

OrtStatus* CheckCore(const Node& node, const Tensor* tensors, size_t k) {
  if (tensors[k].rank == 4 && tensors[k].type == tensors[0].type) return nullptr;
  Message message = Begin(node);
  message << "got " << Tt::kTensors[k].name << " of shape " << tensors[k]
          << (tensors[k].type == tensors[0].type ? "" : " and another type than core_0")
          << ", expected [rows, rank, columns, rank] and one type for all cores" << kDamaged;
  return Fail(node, message);
}

OrtStatus* CheckTable(const Node& node, const tt::Table& table, const Tensor* tensors) {
  const ee_status status = tt::Validate(table);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status) << "; got num_embeddings=" << table.num_embeddings
          << ", padding_idx=" << table.padding_idx << " and cores";
  for (int64_t k = 0; k < table.num_cores; ++k) message << " " << tensors[k];
  return Fail(node, message << kDamaged);
}

OrtStatus* Tt::MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                         size_t num_tensors, Table* table) {
  for (size_t k = 0; k < num_tensors; ++k) {
    if (OrtStatus* status = CheckCore(node, tensors, k)) return status;
    const Tensor& core = tensors[k];
    table->cores[k] = {static_cast<const unsigned char*>(core.data),
                       core.count * SizeOf(core.type),
                       core.dims[0],
                       core.dims[1],
                       core.dims[2],
                       core.dims[3]};
  }
  table->num_cores = static_cast<int64_t>(num_tensors);
  table->num_embeddings = attributes.num_embeddings;
  table->padding_idx = attributes.padding_idx;
  table->core_type = tensors[0].type;
  return CheckTable(node, *table, tensors);
}

OrtStatus* Tt::PrepareRows(const OrtKernelInfo* info, TableKernel<Tt>* kernel) {
  uint64_t most_bytes = 0;
  if (OrtStatus* status = ReadMemoryBytes(kernel->node, info, &most_bytes)) return status;
  const tt::Merging merging = tt::BestMerging(kernel->table, most_bytes);
  if (merging.bytes == 0 || !AllocatePrepared(kernel, merging.bytes)) return nullptr;
  Buffer scratch(*kernel->node.api);
  if (OrtStatus* status = scratch.Allocate(kernel->node, merging.scratch_doubles, sizeof(double)))
    return status;
  kernel->table = Merge(kernel->table, merging, kernel->prepared, static_cast<double*>(scratch.data()));
  return nullptr;
}

}  // namespace

constexpr OpSpec kTTOps[kNumUses] = {MakeSpec<Tt, Rows>(), MakeSpec<Tt, Bag>(), MakeSpec<Tt, Logits>(),
                                     MakeSpec<Tt, BestOf>()};

}  // namespace edge_embed::ort
