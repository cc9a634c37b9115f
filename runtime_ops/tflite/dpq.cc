// Tables of DPQ.
#include "tflite/table.h"

namespace edge_embed::tflite {
namespace {

// Numbers of the manifest that become 32-bit fields. A number that does not fit becomes an invalid one.
int32_t Small(int64_t integer) {
  return integer < -1 || integer > INT32_MAX ? -1 : static_cast<int32_t>(integer);
}

}  // namespace

void ReadMethod(Fields* fields, Memory*, ee_dpq_table* dpq, Table* table) {
  const Constant codes = fields->ReadConstant("codes", Only(EE_UINT8));
  const Constant values = fields->ReadConstant("values", kFloats | Only(EE_INT8));
  const Constant scales = fields->ReadConstantOr("value_scales", Only(EE_FLOAT32));
  dpq->codes = static_cast<const uint8_t*>(codes.data);
  dpq->codes_bytes = codes.bytes;
  dpq->values = values.data;
  dpq->values_bytes = values.bytes;
  dpq->value_type = values.type;
  dpq->value_scales = scales.data;
  dpq->value_scales_bytes = scales.bytes;
  dpq->num_embeddings = table->num_embeddings;
  dpq->num_codes = fields->Integer("num_codes");
  dpq->num_groups = fields->Integer("num_groups");
  dpq->group_width = fields->Integer("group_width");
  dpq->bits = Small(fields->Integer("bits"));
  dpq->shared = fields->IntegerOr("shared", 0) != 0;
  dpq->padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  const int64_t factors[] = {dpq->num_groups, dpq->group_width};
  if (!Product(factors, 2, &table->columns))
    fields->Fail("num_groups * group_width", "a product that overflows", "the numbers of a row");
}

}  // namespace edge_embed::tflite
