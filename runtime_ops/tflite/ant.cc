// Tables of ANT.
#include <string.h>

#include "tflite/table.h"

namespace edge_embed::tflite {
namespace {

// Rows with `width` weights each, as a table with row offsets in `memory`. The offsets need at most 4 bytes
// for each anchor id of the file.
void MakeRowOffsets(Fields* fields, int64_t width, Memory* memory, ee_ant_table* ant) {
  const int64_t rows = ant->num_embeddings;
  int64_t last;
  if (rows < 1 || width < 1 || __builtin_mul_overflow(rows, width, &last) || last > INT32_MAX ||
      static_cast<uint64_t>(last) > ant->anchor_ids_bytes) {
    return fields->Fail("row_width", "more weights than the file or int32 row offsets can hold, or none",
                        "at least 1 in each row, and fewer than 2^31 in total");
  }
  const size_t bytes = (static_cast<size_t>(rows) + 1) * sizeof(int32_t);
  if (!memory->Reserve(bytes))
    return fields->Fail("row_width", "not enough memory for row offsets", "4 bytes for each row");
  auto* offsets = static_cast<int32_t*>(memory->data);
  for (int64_t i = 0; i <= rows; ++i) offsets[i] = static_cast<int32_t>(i * width);
  ant->row_offsets = offsets;
  ant->row_offsets_bytes = bytes;
}

}  // namespace

void ReadMethod(Fields* fields, Memory* memory, ee_ant_table* ant, Table* table) {
  const Constant offsets = fields->ReadConstantOr("row_offsets", Only(EE_INT32));
  const Constant ids = fields->ReadConstant("anchor_ids", Only(EE_UINT8) | Only(EE_UINT16) | Only(EE_UINT32));
  const Constant weights = fields->ReadConstant("weights", kFloats | Only(EE_INT8));
  const Constant scale = fields->ReadConstantOr("weight_scale", Only(EE_FLOAT32));
  const Constant anchors = fields->ReadConstant("anchors", kFloats);
  ant->row_offsets = offsets.data;
  ant->row_offsets_bytes = offsets.bytes;
  ant->anchor_ids = ids.data;
  ant->anchor_ids_bytes = ids.bytes;
  ant->anchor_id_type = ids.type;
  ant->weights = weights.data;
  ant->weights_bytes = weights.bytes;
  ant->weight_type = weights.type;
  ant->anchors = anchors.data;
  ant->anchors_bytes = anchors.bytes;
  ant->anchor_type = anchors.type;
  ant->num_embeddings = table->num_embeddings;
  ant->num_weights = fields->Integer("num_weights");
  ant->num_anchors = fields->Integer("num_anchors");
  ant->embedding_dim = fields->Integer("embedding_dim");
  ant->padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  ant->weight_scale = 1;
  if (fields->Has("weight_scale") && scale.bytes < sizeof(float))
    fields->Fail("weight_scale", "no number", "one");
  if (scale.bytes >= sizeof(float)) memcpy(&ant->weight_scale, scale.data, sizeof(float));
  table->columns = ant->embedding_dim;
  if (fields->ok() && !fields->Has("row_offsets")) {
    MakeRowOffsets(fields, fields->Integer("row_width"), memory, ant);
  }
}

}  // namespace edge_embed::tflite
