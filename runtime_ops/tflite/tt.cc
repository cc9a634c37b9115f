// Tables of TT and TR.
#include "tflite/table.h"

namespace edge_embed::tflite {

void ReadMethod(Fields* fields, Memory*, ee_tt_table* tt, Table* table) {
  static constexpr const char* kCores[EE_MAX_CORES] = {"core_0", "core_1", "core_2",
                                                       "core_3", "core_4", "core_5"};
  int64_t rows[EE_MAX_CORES], columns[EE_MAX_CORES], ranks[EE_MAX_CORES + 1];
  const size_t count = fields->Integers("row_shape", EE_MAX_CORES, rows);
  if (fields->Integers("col_shape", EE_MAX_CORES, columns) != count ||
      fields->Integers("ranks", EE_MAX_CORES + 1, ranks) != count + 1) {
    return fields->Fail("row_shape, col_shape and ranks", "lengths that do not match",
                        "equal lengths of both, and one more rank");
  }
  for (size_t k = 0; k < count; ++k) {
    const Constant core = fields->ReadConstant(kCores[k], kFloats);
    if (k > 0 && core.type != tt->core_type)
      fields->Fail(kCores[k], "another type than core_0 has", "one type for all cores");
    tt->core_type = core.type;
    tt->cores[k] = {core.data, core.bytes, rows[k], ranks[k], columns[k], ranks[k + 1]};
  }
  tt->num_cores = static_cast<int64_t>(count);
  tt->num_embeddings = table->num_embeddings;
  tt->padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  if (!Product(columns, count, &table->columns))
    fields->Fail("col_shape", "a product that overflows", "the numbers of a row");
}

}  // namespace edge_embed::tflite
