// The ONNX operators of DPQ, version 1. The tensors of a table are
//   codes uint8 [n, row_bytes], values float32 | float16 | int8 [num_groups or 1, num_codes, s],
//   and value_scales float32 [num_groups or 1] if values are int8.
// Its attributes are format_version, bits, num_codes, num_groups and padding_idx (-1: none); d =
// num_groups*s. Output layers may have the attribute memory_bytes, the limit for blocks of the codes
// (kernels/dpq/blocks.h). Without it, there is no limit.
#include "ort/dpq.h"

#include "kernels/dpq/blocks.h"
#include "ort/bag.h"
#include "ort/logits.h"
#include "ort/methods.h"
#include "ort/rows.h"
#include "ort/topk.h"

namespace edge_embed::ort {
namespace {

struct Dpq {
  static constexpr const char* kRows = "DPQEmbedding";
  static constexpr const char* kBag = "DPQEmbeddingBag";
  static constexpr const char* kLogits = "DPQLogits";
  static constexpr const char* kTopK = "DPQTopK";
  static constexpr InputSpec kTensors[] = {
      {"codes", Only(EE_UINT8)}, {"values", kFloats | Only(EE_INT8)}, {"value_scales", Only(EE_FLOAT32)}};
  static constexpr size_t kRequired = 2;
  static constexpr size_t kFloatTensor = 1;

  using Table = dpq::Table;
  using Attributes = DpqAttributes;
  static constexpr auto ReadAttributes = ReadDpqAttributes;
  static constexpr auto MakeTable = MakeDpqTable;
  template <class Use>
  static OrtStatus* Prepare(const OrtKernelInfo* info, TableKernel<Dpq>* kernel) {
    return Use::kMakesRows ? nullptr : PrepareOutputLayer(info, kernel);
  }
  static OrtStatus* PrepareOutputLayer(const OrtKernelInfo* info, TableKernel<Dpq>* kernel);
};

OrtStatus* CheckAttributes(const Node& node, const DpqAttributes& attributes, uint64_t* row_bytes) {
  const bool bits_fit = attributes.bits >= 1 && attributes.bits <= 16;
  if (bits_fit && dpq::RowBytes(attributes.num_groups, static_cast<int>(attributes.bits), row_bytes)) {
    return nullptr;
  }
  Message message = Begin(node);
  message << "got bits=" << attributes.bits << " and num_groups=" << attributes.num_groups
          << ", expected bits from 1 to 16 and num_groups of at least 1" << kDamaged;
  return Fail(node, message);
}

OrtStatus* CheckCodes(const Node& node, const DpqAttributes& attributes, const Tensor& codes,
                      uint64_t row_bytes) {
  if (codes.rank == 2 && codes.dims[0] >= 1 && static_cast<uint64_t>(codes.dims[1]) == row_bytes) {
    return nullptr;
  }
  Message message = Begin(node);
  message << "got codes of shape " << codes << ", expected [rows, " << static_cast<int64_t>(row_bytes)
          << "] with at least one row (" << attributes.num_groups << " groups of " << attributes.bits
          << " bits)" << kDamaged;
  return Fail(node, message);
}

OrtStatus* CheckValues(const Node& node, const DpqAttributes& attributes, const Tensor& values) {
  if (values.rank == 3 && (values.dims[0] == attributes.num_groups || values.dims[0] == 1) &&
      values.dims[1] == attributes.num_codes && values.dims[2] >= 1) {
    return nullptr;
  }
  Message message = Begin(node);
  message << "got values of shape " << values << ", expected [" << attributes.num_groups << " or 1, "
          << attributes.num_codes << ", group width]" << kDamaged;
  return Fail(node, message);
}

// int8 values require one scale for each group of values; other values have none.
OrtStatus* CheckScales(const Node& node, const Tensor* tensors, size_t num_tensors) {
  const Tensor &values = tensors[1], &scales = tensors[2];
  const bool needed = values.type == EE_INT8, given = num_tensors > 2;
  if (needed == given && (!given || (scales.rank == 1 && scales.dims[0] == values.dims[0]))) return nullptr;
  Message message = Begin(node);
  message << (given ? "got value_scales of shape " : "got no value_scales");
  if (given) message << scales;
  if (needed) {
    message << ", expected [" << values.dims[0] << "] with int8 values" << kDamaged;
  } else {
    message << ", expected none, as the values are not int8" << kDamaged;
  }
  return Fail(node, message);
}

OrtStatus* CheckTable(const Node& node, const dpq::Table& table) {
  const ee_status status = dpq::Validate(table);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status) << "; got num_embeddings=" << table.num_embeddings
          << ", num_codes=" << table.num_codes << ", num_groups=" << table.num_groups
          << ", group_width=" << table.group_width << ", bits=" << int64_t{table.bits}
          << ", padding_idx=" << table.padding_idx << kDamaged;
  return Fail(node, message);
}

OrtStatus* Dpq::PrepareOutputLayer(const OrtKernelInfo* info, TableKernel<Dpq>* kernel) {
  dpq::Table& table = kernel->table;
  const uint64_t bytes = ChosenKernels(table).logits.Blocks(table).saturated();
  uint64_t most_bytes = UINT64_MAX;  // blocks are as large as the codes
  if (OrtStatus* status = ReadMemoryBytes(kernel->node, info, &most_bytes)) return status;
  if (bytes == 0 || bytes > most_bytes || !AllocatePrepared(kernel, bytes)) return nullptr;
  auto* const blocks = static_cast<unsigned char*>(kernel->prepared);
  dpq::MakeBlocks(table, blocks);
  table.blocks = blocks;
  table.blocks_bytes = static_cast<size_t>(bytes);
  return nullptr;
}

}  // namespace

OrtStatus* ReadDpqAttributes(const Node& node, const OrtKernelInfo* info, DpqAttributes* attributes) {
  if (OrtStatus* status = ReadInt(node, info, "bits", &attributes->bits)) return status;
  if (OrtStatus* status = ReadInt(node, info, "num_codes", &attributes->num_codes)) return status;
  if (OrtStatus* status = ReadInt(node, info, "num_groups", &attributes->num_groups)) return status;
  return ReadInt(node, info, "padding_idx", &attributes->padding_idx);
}

OrtStatus* MakeDpqTable(const Node& node, const DpqAttributes& attributes, const Tensor* tensors,
                        size_t num_tensors, dpq::Table* table) {
  const Tensor &codes = tensors[0], &values = tensors[1];
  uint64_t row_bytes = 0;
  if (OrtStatus* status = CheckAttributes(node, attributes, &row_bytes)) return status;
  if (OrtStatus* status = CheckCodes(node, attributes, codes, row_bytes)) return status;
  if (OrtStatus* status = CheckValues(node, attributes, values)) return status;
  if (OrtStatus* status = CheckScales(node, tensors, num_tensors)) return status;

  table->codes = static_cast<const unsigned char*>(codes.data);
  table->codes_bytes = codes.count;
  table->values = static_cast<const unsigned char*>(values.data);
  table->values_bytes = values.count * SizeOf(values.type);
  if (num_tensors > 2) {
    table->value_scales = static_cast<const unsigned char*>(tensors[2].data);
    table->value_scales_bytes = tensors[2].count * sizeof(float);
  }
  table->num_embeddings = codes.dims[0];
  table->num_codes = attributes.num_codes;
  table->num_groups = attributes.num_groups;
  table->group_width = values.dims[2];
  table->padding_idx = attributes.padding_idx;
  table->value_type = values.type;
  table->bits = static_cast<int>(attributes.bits);
  table->shared = values.dims[0] == 1;
  return CheckTable(node, *table);
}

constexpr OpSpec kDPQOps[kNumUses] = {MakeSpec<Dpq, Rows>(), MakeSpec<Dpq, Bag>(), MakeSpec<Dpq, Logits>(),
                                      MakeSpec<Dpq, BestOf>()};

}  // namespace edge_embed::ort
