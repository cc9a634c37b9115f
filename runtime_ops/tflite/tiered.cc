// Tiered tables. `tiers` has the rows of each tier, whose other fields are those of DPQ with row scales after
// "tier_0_" and so on.
#include <string.h>

#include "tflite/table.h"

namespace edge_embed::tflite {

void ReadMethod(Fields* fields, Memory* memory, ee_tiered_table* tiered, Table* table) {
  static constexpr const char* kPrefixes[EE_NUM_TIERS] = {"tier_0_", "tier_1_", "tier_2_"};
  int64_t rows[EE_NUM_TIERS];
  if (fields->Integers("tiers", EE_NUM_TIERS, rows) != EE_NUM_TIERS)
    return fields->Fail("tiers", "another number of them", "three");
  const Constant map = fields->ReadConstantOr("tier_map", Only(EE_UINT8));
  const Constant ranks = fields->ReadConstantOr("tier_ranks", Only(EE_INT32));
  tiered->tier_map = static_cast<const uint8_t*>(map.data);
  tiered->tier_map_bytes = map.bytes;
  tiered->tier_ranks = ranks.data;
  tiered->tier_ranks_bytes = ranks.bytes;
  tiered->num_embeddings = table->num_embeddings;
  tiered->padding_idx = fields->IntegerOr("padding_idx", kNoPadding);
  if (!memory->Reserve(EE_NUM_TIERS * sizeof(ee_dpq_scaled_table)))
    return fields->Fail("tiers", "not enough memory for them", "a smaller model");
  auto* const tiers = static_cast<ee_dpq_scaled_table*>(memory->data);
  memset(tiers, 0, EE_NUM_TIERS * sizeof(ee_dpq_scaled_table));
  tiered->tiers = tiers;
  tiered->tiers_bytes = EE_NUM_TIERS * sizeof(ee_dpq_scaled_table);
  for (size_t t = 0; t < EE_NUM_TIERS; ++t) {
    Table tier{};
    tier.num_embeddings = rows[t];
    fields->SetPrefix(kPrefixes[t]);
    ReadMethod(fields, memory, &tiers[t], &tier);
    table->columns = tier.columns;
  }
  fields->SetPrefix("");
}

}  // namespace edge_embed::tflite
