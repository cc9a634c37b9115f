#include "tflite/table.h"

#include <string.h>

namespace edge_embed::tflite {
namespace {

constexpr int64_t kNoPadding = -1;

bool Product(const int64_t* factors, size_t count, int64_t* product) {
  *product = 1;
  for (size_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(*product, factors[i], product)) return false;
  }
  return true;
}

// The numbers of the manifest that become 32-bit fields: one that does not fit is none that they may have.
int32_t Small(int64_t integer) {
  return integer < -1 || integer > INT32_MAX ? -1 : static_cast<int32_t>(integer);
}

void ReadDpq(Fields* fields, Table* table) {
  ee_dpq_table& dpq = table->dpq;
  const Constant codes = fields->ReadConstant("codes", Only(EE_UINT8));
  const Constant values = fields->ReadConstant("values", kFloats | Only(EE_INT8));
  const Constant scales = fields->ReadConstantOr("value_scales", Only(EE_FLOAT32));
  dpq.codes = static_cast<const uint8_t*>(codes.data);
  dpq.codes_bytes = codes.bytes;
  dpq.values = values.data;
  dpq.values_bytes = values.bytes;
  dpq.value_type = values.type;
  dpq.value_scales = scales.data;
  dpq.value_scales_bytes = scales.bytes;
  dpq.num_embeddings = table->num_embeddings;
  dpq.num_codes = fields->Integer("num_codes");
  dpq.num_groups = fields->Integer("num_groups");
  dpq.group_width = fields->Integer("group_width");
  dpq.bits = Small(fields->Integer("bits"));
  dpq.shared = fields->IntegerOr("shared", 0) != 0;
  dpq.padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  const int64_t factors[] = {dpq.num_groups, dpq.group_width};
  if (!Product(factors, 2, &table->columns))
    fields->Fail("num_groups * group_width", "sizes that overflow", "numbers of a row");
}

// Rows that all have `width` weights, as those of a table with row offsets, which `memory` then has. At most
// 4 bytes for each anchor id that the file really holds.
void MakeRowOffsets(Fields* fields, int64_t width, Memory* memory, ee_ant_table* ant) {
  const int64_t rows = ant->num_embeddings;
  int64_t last;
  if (rows < 1 || width < 1 || __builtin_mul_overflow(rows, width, &last) || last > INT32_MAX ||
      static_cast<uint64_t>(last) > ant->anchor_ids_bytes) {
    return fields->Fail("row_width",
                        "more weights than the file holds or int32 row offsets can count, or none",
                        "at least 1 in each row, and fewer than 2^31 in all");
  }
  const size_t bytes = (static_cast<size_t>(rows) + 1) * sizeof(int32_t);
  if (!memory->Reserve(bytes))
    return fields->Fail("row_width", "no memory for row offsets", "4 bytes for each row");
  auto* offsets = static_cast<int32_t*>(memory->data);
  for (int64_t i = 0; i <= rows; ++i) offsets[i] = static_cast<int32_t>(i * width);
  ant->row_offsets = offsets;
  ant->row_offsets_bytes = bytes;
}

void ReadAnt(Fields* fields, Memory* memory, Table* table) {
  ee_ant_table& ant = table->ant;
  const Constant offsets = fields->ReadConstantOr("row_offsets", Only(EE_INT32));
  const Constant ids = fields->ReadConstant("anchor_ids", Only(EE_UINT8) | Only(EE_UINT16) | Only(EE_UINT32));
  const Constant weights = fields->ReadConstant("weights", kFloats | Only(EE_INT8));
  const Constant scale = fields->ReadConstantOr("weight_scale", Only(EE_FLOAT32));
  const Constant anchors = fields->ReadConstant("anchors", kFloats);
  ant.row_offsets = offsets.data;
  ant.row_offsets_bytes = offsets.bytes;
  ant.anchor_ids = ids.data;
  ant.anchor_ids_bytes = ids.bytes;
  ant.anchor_id_type = ids.type;
  ant.weights = weights.data;
  ant.weights_bytes = weights.bytes;
  ant.weight_type = weights.type;
  ant.anchors = anchors.data;
  ant.anchors_bytes = anchors.bytes;
  ant.anchor_type = anchors.type;
  ant.num_embeddings = table->num_embeddings;
  ant.num_weights = fields->Integer("num_weights");
  ant.num_anchors = fields->Integer("num_anchors");
  ant.embedding_dim = fields->Integer("embedding_dim");
  ant.padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  ant.weight_scale = 1;
  if (fields->Has("weight_scale") && scale.bytes < sizeof(float))
    fields->Fail("weight_scale", "no number", "one");
  if (scale.bytes >= sizeof(float)) memcpy(&ant.weight_scale, scale.data, sizeof(float));
  table->columns = ant.embedding_dim;
  if (fields->ok() && !fields->Has("row_offsets")) {
    MakeRowOffsets(fields, fields->Integer("row_width"), memory, &ant);
  }
}

void ReadTt(Fields* fields, Table* table) {
  static constexpr const char* kCores[EE_MAX_CORES] = {"core_0", "core_1", "core_2",
                                                       "core_3", "core_4", "core_5"};
  ee_tt_table& tt = table->tt;
  int64_t rows[EE_MAX_CORES], columns[EE_MAX_CORES], ranks[EE_MAX_CORES + 1];
  const size_t count = fields->Integers("row_shape", EE_MAX_CORES, rows);
  if (fields->Integers("col_shape", EE_MAX_CORES, columns) != count ||
      fields->Integers("ranks", EE_MAX_CORES + 1, ranks) != count + 1) {
    return fields->Fail("row_shape, col_shape and ranks", "lengths that do not fit",
                        "as many of both, and one rank more");
  }
  for (size_t k = 0; k < count; ++k) {
    const Constant core = fields->ReadConstant(kCores[k], kFloats);
    if (k > 0 && core.type != tt.core_type)
      fields->Fail(kCores[k], "another type than core_0 has", "one type for all cores");
    tt.core_type = core.type;
    tt.cores[k] = {core.data, core.bytes, rows[k], ranks[k], columns[k], ranks[k + 1]};
  }
  tt.num_cores = static_cast<int64_t>(count);
  tt.num_embeddings = table->num_embeddings;
  tt.padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  if (!Product(columns, count, &table->columns))
    fields->Fail("col_shape", "sizes that overflow", "numbers of a row");
}

}  // namespace

bool ReadTable(Fields* fields, Text method, Memory* memory, Table* table) {
  table->num_embeddings = fields->Integer("num_embeddings");
  if (method.Is("dpq")) {
    table->method = Method::kDpq;
    ReadDpq(fields, table);
  } else if (method.Is("ant")) {
    table->method = Method::kAnt;
    ReadAnt(fields, memory, table);
  } else if (method.Is("tt")) {
    table->method = Method::kTt;
    ReadTt(fields, table);
  } else {
    fields->Fail("method", "an unknown one", "dpq, ant or tt");
  }
  return fields->ok();
}

}  // namespace edge_embed::tflite
