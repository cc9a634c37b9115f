// Tables of DPQ with row scales.
#include "tflite/table.h"

namespace edge_embed::tflite {

void ReadMethod(Fields* fields, Memory* memory, ee_dpq_scaled_table* scaled, Table* table) {
  ReadMethod(fields, memory, &scaled->plain, table);
  const Constant codes = fields->ReadConstantOr("row_scale_codes", Only(EE_UINT8));
  const Constant scales = fields->ReadConstantOr("row_scales", Only(EE_FLOAT32));
  scaled->row_scale_codes = static_cast<const uint8_t*>(codes.data);
  scaled->row_scale_codes_bytes = codes.bytes;
  scaled->row_scales = scales.data;
  scaled->row_scales_bytes = scales.bytes;
  scaled->num_row_scales = static_cast<int64_t>(scales.bytes / sizeof(float));
  scaled->unused_columns = fields->IntegerOr("unused_columns", 0);
  if (scaled->unused_columns < 0 || scaled->unused_columns >= scaled->plain.group_width) {
    return fields->Fail("unused_columns", "a wrong number", "fewer than the columns of a group");
  }
  table->columns -= scaled->unused_columns;
}

}  // namespace edge_embed::tflite
