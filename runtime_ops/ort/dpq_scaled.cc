// The ONNX operators of DPQ with row scales, version 1. The tensors of a table are those of DPQ (ort/dpq.cc),
// and
//   row_scale_codes uint8 [n], row_scales float32 [S]
// unless rows have no scales. Its attributes are those of DPQ, and unused_columns; d = num_groups*s -
// unused_columns. Rows with scales are float32, for any type of the values.
#include "kernels/dpq_scaled/dpq_scaled.h"

#include "ort/bag.h"
#include "ort/dpq.h"
#include "ort/logits.h"
#include "ort/methods.h"
#include "ort/rows.h"
#include "ort/topk.h"

namespace edge_embed::ort {
namespace {

constexpr size_t kPlainTensors = 3, kScaleTensors = 2;

struct DpqScaled {
  static constexpr const char* kRows = "DPQScaledEmbedding";
  static constexpr const char* kBag = "DPQScaledEmbeddingBag";
  static constexpr const char* kLogits = "DPQScaledLogits";
  static constexpr const char* kTopK = "DPQScaledTopK";
  static constexpr InputSpec kTensors[] = {{"codes", Only(EE_UINT8)},
                                           {"values", kFloats | Only(EE_INT8)},
                                           {"value_scales", Only(EE_FLOAT32)},
                                           {"row_scale_codes", Only(EE_UINT8)},
                                           {"row_scales", Only(EE_FLOAT32)}};
  // The same, then the tensors of a node without value_scales.
  static constexpr InputSpec kBothLists[] = {kTensors[0], kTensors[1], kTensors[2], kTensors[3], kTensors[4],
                                             kTensors[0], kTensors[1], kTensors[3], kTensors[4]};
  static constexpr size_t kRequired = 2;
  static constexpr size_t kFloatTensor = 1;

  using Table = dpq_scaled::Table;
  struct Attributes {
    DpqAttributes plain;
    int64_t unused_columns;
  };
  static OrtStatus* ReadAttributes(const Node& node, const OrtKernelInfo* info, Attributes* attributes) {
    if (OrtStatus* status = ReadDpqAttributes(node, info, &attributes->plain)) return status;
    return ReadInt(node, info, "unused_columns", &attributes->unused_columns);
  }
  static OrtStatus* MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                              size_t num_tensors, Table* table);
  template <class Use>
  static OrtStatus* Prepare(const OrtKernelInfo*, TableKernel<DpqScaled>*) {
    return nullptr;
  }
};

OrtStatus* CheckUnusedColumns(const Node& node, int64_t unused_columns, int64_t width) {
  if (unused_columns >= 0 && unused_columns < width) return nullptr;
  Message message = Begin(node);
  message << "got unused_columns=" << unused_columns << ", expected 0 to " << width - 1
          << ", fewer than the columns of a group" << kDamaged;
  return Fail(node, message);
}

OrtStatus* DpqScaled::MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                                size_t num_tensors, Table* table) {
  const bool has_scales = num_tensors > kPlainTensors;
  const size_t num_plain = has_scales ? num_tensors - kScaleTensors : num_tensors;
  if (OrtStatus* status = MakeDpqTable(node, attributes.plain, tensors, num_plain, table)) return status;
  if (OrtStatus* status = CheckUnusedColumns(node, attributes.unused_columns, table->group_width)) {
    return status;
  }
  table->unused_columns = attributes.unused_columns;
  if (!has_scales) return nullptr;
  return AddRowScales(node, tensors[num_plain], tensors[num_plain + 1], table);
}

template <class Use>
constexpr OpSpec MakeScaledSpec() {
  OpSpec spec = MakeSpec<DpqScaled, Use>();
  spec.tensors = DpqScaled::kBothLists;
  spec.shorter = CountOf(DpqScaled::kTensors) - 1;
  if (Use::kMakesRows) spec.scale_input = CountOf(Use::kInputs) + kPlainTensors - 1;
  return spec;
}

}  // namespace

OrtStatus* AddRowScales(const Node& node, const Tensor& codes, const Tensor& scales,
                        dpq_scaled::Table* table) {
  if (codes.rank != 1 || codes.dims[0] != table->num_embeddings || scales.rank != 1 || scales.dims[0] < 1 ||
      scales.dims[0] > EE_MAX_ROW_SCALES) {
    Message message = Begin(node);
    message << "got row_scale_codes of shape " << codes << " and row_scales of shape " << scales
            << ", expected [" << table->num_embeddings << "] and [1 to " << EE_MAX_ROW_SCALES << "]"
            << kDamaged;
    return Fail(node, message);
  }
  table->row_scale_codes = static_cast<const unsigned char*>(codes.data);
  table->row_scale_codes_bytes = codes.count;
  table->row_scales = static_cast<const unsigned char*>(scales.data);
  table->row_scales_bytes = scales.count * sizeof(float);
  table->num_row_scales = scales.dims[0];
  return nullptr;
}

constexpr OpSpec kDPQ_SCALEDOps[kNumUses] = {MakeScaledSpec<Rows>(), MakeScaledSpec<Bag>(),
                                             MakeScaledSpec<Logits>(), MakeScaledSpec<BestOf>()};

}  // namespace edge_embed::ort
