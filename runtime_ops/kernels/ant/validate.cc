#include "kernels/ant/ant.h"
#include "kernels/size.h"

namespace edge_embed::ant {
namespace {

bool TypesAreKnown(const Table& table) {
  const ee_type ids = table.anchor_id_type, weights = table.weight_type;
  return (ids == EE_UINT8 || ids == EE_UINT16 || ids == EE_UINT32) &&
         (IsFloat(weights) || weights == EE_INT8) && IsFloat(table.anchor_type);
}

bool PointersAreThere(const Table& table) {
  return table.row_offsets != nullptr && table.anchors != nullptr &&
         (table.num_weights == 0 || (table.anchor_ids != nullptr && table.weights != nullptr));
}

}  // namespace

ee_status Validate(const Table& table) {
  if (table.num_embeddings < 1 || table.num_weights < 0 || table.num_anchors < 1 || table.embedding_dim < 1) {
    return EE_BAD_SHAPE;
  }
  if (!PointersAreThere(table)) return EE_NULL_POINTER;
  if (!TypesAreKnown(table)) return EE_BAD_TYPE;
  if (table.padding_idx < kNoPadding || table.padding_idx >= table.num_embeddings) return EE_BAD_PADDING;

  const Size weights = static_cast<uint64_t>(table.num_weights);
  const Size columns = static_cast<uint64_t>(table.embedding_dim);
  uint64_t row_offsets, anchor_ids, weight_bytes, anchors, scratch;
  if (!((Size(static_cast<uint64_t>(table.num_embeddings)) + 1) * sizeof(int32_t)).Get(&row_offsets) ||
      !(weights * SizeOf(table.anchor_id_type)).Get(&anchor_ids) ||
      !(weights * SizeOf(table.weight_type)).Get(&weight_bytes) ||
      !(columns * static_cast<uint64_t>(table.num_anchors) * SizeOf(table.anchor_type)).Get(&anchors) ||
      !(columns * 2 * sizeof(double)).Get(&scratch)) {
    return EE_SIZE_OVERFLOW;
  }
  if (table.row_offsets_bytes < row_offsets) return EE_SHORT_ROW_OFFSETS;
  if (table.anchor_ids_bytes < anchor_ids) return EE_SHORT_ANCHOR_IDS;
  if (table.weights_bytes < weight_bytes) return EE_SHORT_WEIGHTS;
  if (table.anchors_bytes < anchors) return EE_SHORT_ANCHORS;
  return EE_OK;
}

}  // namespace edge_embed::ant
