// The ONNX operators of ANT, version 1. The tensors of a table are
//   row_offsets int32 [n+1], anchor_ids uint8 | uint16 | uint32 [nnz], weights float32 | float16 | int8
//   [nnz], weight_scale float32 [1], anchors float32 | float16 [A, d].
// Its attributes are format_version and padding_idx (-1: none).
#include "ort/bag.h"
#include "ort/logits.h"
#include "ort/methods.h"
#include "ort/rows.h"
#include "ort/topk.h"

namespace edge_embed::ort {
namespace {

enum AntTensor : size_t { kRowOffsets, kAnchorIds, kWeights, kWeightScale, kAnchors };

struct Ant {
  static constexpr const char* kRows = "ANTEmbedding";
  static constexpr const char* kBag = "ANTEmbeddingBag";
  static constexpr const char* kLogits = "ANTLogits";
  static constexpr const char* kTopK = "ANTTopK";
  static constexpr InputSpec kTensors[] = {
      {"row_offsets", Only(EE_INT32)},
      {"anchor_ids", Only(EE_UINT8) | Only(EE_UINT16) | Only(EE_UINT32)},
      {"weights", kFloats | Only(EE_INT8)},
      {"weight_scale", Only(EE_FLOAT32)},
      {"anchors", kFloats},
  };
  static constexpr size_t kRequired = 5;
  static constexpr size_t kFloatTensor = kAnchors;

  using Table = ant::Table;
  struct Attributes {
    int64_t padding_idx;
  };
  static OrtStatus* ReadAttributes(const Node& node, const OrtKernelInfo* info, Attributes* attributes) {
    return ReadInt(node, info, "padding_idx", &attributes->padding_idx);
  }
  static OrtStatus* MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                              size_t num_tensors, Table* table);
  template <class Use>
  static OrtStatus* Prepare(const OrtKernelInfo*, TableKernel<Ant>*) {
    return nullptr;
  }
};

OrtStatus* CheckShapes(const Node& node, const Tensor* tensors) {
  const Tensor &offsets = tensors[kRowOffsets], &ids = tensors[kAnchorIds], &weights = tensors[kWeights];
  const Tensor &scale = tensors[kWeightScale], &anchors = tensors[kAnchors];
  if (offsets.rank == 1 && offsets.count >= 2 && ids.rank == 1 && weights.rank == 1 &&
      ids.count == weights.count && scale.rank == 1 && scale.count == 1 && anchors.rank == 2) {
    return nullptr;
  }
  Message message = Begin(node);
  message << "got row_offsets of shape " << offsets << ", anchor_ids " << ids << ", weights " << weights
          << ", weight_scale " << scale << " and anchors " << anchors
          << ", expected [rows + 1] with at least one row, [weights], [weights], [1] and [anchors, columns]"
          << kDamaged;
  return Fail(node, message);
}

OrtStatus* CheckTable(const Node& node, const ant::Table& table) {
  const ee_status status = ant::Validate(table);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status) << "; got num_embeddings=" << table.num_embeddings
          << ", num_weights=" << table.num_weights << ", num_anchors=" << table.num_anchors
          << ", embedding_dim=" << table.embedding_dim << ", padding_idx=" << table.padding_idx << kDamaged;
  return Fail(node, message);
}

void Point(const Tensor& tensor, const unsigned char** data, size_t* bytes) {
  *data = static_cast<const unsigned char*>(tensor.data);
  *bytes = tensor.count * SizeOf(tensor.type);
}

OrtStatus* Ant::MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors, size_t,
                          Table* table) {
  if (OrtStatus* status = CheckShapes(node, tensors)) return status;
  Point(tensors[kRowOffsets], &table->row_offsets, &table->row_offsets_bytes);
  Point(tensors[kAnchorIds], &table->anchor_ids, &table->anchor_ids_bytes);
  Point(tensors[kWeights], &table->weights, &table->weights_bytes);
  Point(tensors[kAnchors], &table->anchors, &table->anchors_bytes);
  table->num_embeddings = tensors[kRowOffsets].dims[0] - 1;
  table->num_weights = tensors[kWeights].dims[0];
  table->num_anchors = tensors[kAnchors].dims[0];
  table->embedding_dim = tensors[kAnchors].dims[1];
  table->padding_idx = attributes.padding_idx;
  table->anchor_id_type = tensors[kAnchorIds].type;
  table->weight_type = tensors[kWeights].type;
  table->anchor_type = tensors[kAnchors].type;
  table->weight_scale = Load<float>(tensors[kWeightScale].data, 0);
  return CheckTable(node, *table);
}

}  // namespace

constexpr OpSpec kANTOps[kNumUses] = {MakeSpec<Ant, Rows>(), MakeSpec<Ant, Bag>(), MakeSpec<Ant, Logits>(),
                                      MakeSpec<Ant, BestOf>()};

}  // namespace edge_embed::ort
