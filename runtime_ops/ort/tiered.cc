// The ONNX operators of tiered tables, version 1. The tensors of a table are
//   tier_map uint8 [blocks, 64] and tier_ranks int32 [blocks, 3], of blocks of 256 rows; both [0, 0] if rows
//   are sorted by tier
// and for each of the three tiers
//   codes uint8 [rows, row_bytes], values float32 | float16 [num_groups or 1, num_codes, s],
//   row_scale_codes uint8 [rows] and row_scales float32 [S]; both [0] if its rows have no scales.
// Its attributes are format_version, num_embeddings, padding_idx (-1: none), and bits, num_codes and
// num_groups of each tier. Rows are float32, for any type of the values.
#include "kernels/tiered/tiered.h"

#include "ort/bag.h"
#include "ort/dpq.h"
#include "ort/logits.h"
#include "ort/methods.h"
#include "ort/rows.h"
#include "ort/topk.h"

namespace edge_embed::ort {
namespace {

constexpr size_t kMapTensors = 2, kTierTensors = 4;

struct Tiered {
  static constexpr const char* kRows = "TieredEmbedding";
  static constexpr const char* kBag = "TieredEmbeddingBag";
  static constexpr const char* kLogits = "TieredLogits";
  static constexpr const char* kTopK = "TieredTopK";
  static constexpr InputSpec kTensors[] = {{"tier_map", Only(EE_UINT8)},
                                           {"tier_ranks", Only(EE_INT32)},
                                           {"tier_0_codes", Only(EE_UINT8)},
                                           {"tier_0_values", kFloats},
                                           {"tier_0_row_scale_codes", Only(EE_UINT8)},
                                           {"tier_0_row_scales", Only(EE_FLOAT32)},
                                           {"tier_1_codes", Only(EE_UINT8)},
                                           {"tier_1_values", kFloats},
                                           {"tier_1_row_scale_codes", Only(EE_UINT8)},
                                           {"tier_1_row_scales", Only(EE_FLOAT32)},
                                           {"tier_2_codes", Only(EE_UINT8)},
                                           {"tier_2_values", kFloats},
                                           {"tier_2_row_scale_codes", Only(EE_UINT8)},
                                           {"tier_2_row_scales", Only(EE_FLOAT32)}};
  static constexpr size_t kRequired = CountOf(kTensors);
  static constexpr size_t kFloatTensor = 0;  // uint8: rows are float32

  using Table = tiered::Table;
  struct Attributes {
    DpqAttributes tiers[EE_NUM_TIERS];
    int64_t num_embeddings;
    int64_t padding_idx;
  };
  static OrtStatus* ReadAttributes(const Node& node, const OrtKernelInfo* info, Attributes* attributes);
  static OrtStatus* MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors,
                              size_t num_tensors, Table* table);
  template <class Use>
  static OrtStatus* Prepare(const OrtKernelInfo*, TableKernel<Tiered>*) {
    return nullptr;
  }
};

constexpr const char* kOfTier[EE_NUM_TIERS][3] = {{"bits_0", "num_codes_0", "num_groups_0"},
                                                  {"bits_1", "num_codes_1", "num_groups_1"},
                                                  {"bits_2", "num_codes_2", "num_groups_2"}};

OrtStatus* Tiered::ReadAttributes(const Node& node, const OrtKernelInfo* info, Attributes* attributes) {
  for (size_t t = 0; t < EE_NUM_TIERS; ++t) {
    DpqAttributes& tier = attributes->tiers[t];
    int64_t* const fields[] = {&tier.bits, &tier.num_codes, &tier.num_groups};
    for (size_t k = 0; k < CountOf(fields); ++k) {
      if (OrtStatus* status = ReadInt(node, info, kOfTier[t][k], fields[k])) return status;
    }
    tier.padding_idx = kNoPadding;
  }
  if (OrtStatus* status = ReadInt(node, info, "num_embeddings", &attributes->num_embeddings)) return status;
  return ReadInt(node, info, "padding_idx", &attributes->padding_idx);
}

OrtStatus* MakeTier(const Node& node, const DpqAttributes& attributes, const Tensor* tensors,
                    dpq_scaled::Table* tier) {
  const Tensor &scale_codes = tensors[2], &scales = tensors[3];
  if (OrtStatus* status = MakeDpqTable(node, attributes, tensors, 2, tier)) return status;
  return scale_codes.count + scales.count == 0 ? nullptr : AddRowScales(node, scale_codes, scales, tier);
}

OrtStatus* CheckMap(const Node& node, const Tensor& map, const Tensor& ranks, int64_t rows) {
  const int64_t blocks = rows / int64_t{tiered::kBlockRows} + (rows % int64_t{tiered::kBlockRows} != 0);
  const int64_t bytes = tiered::kBlockBytes;
  if (map.count + ranks.count == 0) return nullptr;
  if (map.rank == 2 && map.dims[0] == blocks && map.dims[1] == bytes && ranks.rank == 2 &&
      ranks.dims[0] == blocks && ranks.dims[1] == EE_NUM_TIERS) {
    return nullptr;
  }
  Message message = Begin(node);
  message << "got tier_map of shape " << map << " and tier_ranks of shape " << ranks << ", expected ["
          << blocks << ", " << bytes << "] and [" << blocks << ", " << EE_NUM_TIERS << "], or no elements"
          << kDamaged;
  return Fail(node, message);
}

OrtStatus* Tiered::MakeTable(const Node& node, const Attributes& attributes, const Tensor* tensors, size_t,
                             Table* table) {
  const Tensor &map = tensors[0], &ranks = tensors[1];
  for (size_t t = 0; t < EE_NUM_TIERS; ++t) {
    const Tensor* const own = tensors + kMapTensors + t * kTierTensors;
    Message named;  // for error messages
    named << node.op << ", tier " << static_cast<int64_t>(t);
    const Node of_tier{node.api, named.text()};
    if (OrtStatus* status = MakeTier(of_tier, attributes.tiers[t], own, &table->tiers[t])) return status;
  }
  table->num_embeddings = attributes.num_embeddings;
  table->padding_idx = attributes.padding_idx;
  if (OrtStatus* status = CheckMap(node, map, ranks, table->num_embeddings)) return status;
  table->map = map.count == 0 ? nullptr : static_cast<const unsigned char*>(map.data);
  table->map_bytes = map.count;
  table->ranks = static_cast<const unsigned char*>(ranks.data);
  table->ranks_bytes = ranks.count * sizeof(int32_t);
  const ee_status status = tiered::Validate(*table);
  if (status == EE_OK) return nullptr;
  Message message = Begin(node);
  message << StatusMessage(status) << "; got num_embeddings=" << table->num_embeddings
          << " and padding_idx=" << table->padding_idx << kDamaged;
  return Fail(node, message);
}

}  // namespace

constexpr OpSpec kTIEREDOps[kNumUses] = {MakeSpec<Tiered, Rows>(), MakeSpec<Tiered, Bag>(),
                                         MakeSpec<Tiered, Logits>(), MakeSpec<Tiered, BestOf>()};

}  // namespace edge_embed::ort
