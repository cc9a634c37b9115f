// Fuzz target: hostile shapes, buffers and ids through the C interface. For any input, the call must return
// and stay inside the buffers, which are heap blocks of exactly the stated size.
#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed::testing;

// Half of the small tables have buffers that fit exactly, so that an access outside them is detected.
void FitBuffers(ee_dpq_table* table) {
  if (!Small(table->num_embeddings) || !Small(table->num_codes) || !Small(table->num_groups) ||
      !Small(table->group_width) || !Small(table->bits)) {
    return;
  }
  const int64_t codebooks = table->shared ? 1 : table->num_groups;
  const int64_t row_bytes = (table->num_groups * table->bits + 7) / 8;
  table->codes_bytes = static_cast<size_t>(table->num_embeddings * row_bytes);
  table->values_bytes =
      static_cast<size_t>(codebooks * table->num_codes * table->group_width * BytesOf(table->value_type));
  table->value_scales_bytes = static_cast<size_t>(codebooks) * sizeof(float);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_table tagged = Tagged(EE_DPQ);
  ee_dpq_table& table = tagged.dpq;
  // Half of the tables have enough rows for every kernel of logits.
  table.num_embeddings = Number(in, (in.Take<uint8_t>() & 1) != 0 ? 12 : 90);
  table.num_codes = Number(in, (in.Take<uint8_t>() & 1) != 0 ? 40 : 17);
  table.num_groups = Number(in, 10);
  table.group_width = Number(in, 6);
  table.padding_idx = Number(in, 14) - 1;
  table.bits = in.Take<uint8_t>() < 230 ? SmallestBits(table.num_codes) : in.Take<int32_t>();
  table.shared = in.Take<uint8_t>() & 1;
  table.value_type = in.Take<uint8_t>() < 250 ? in.Take<uint8_t>() % 3 : in.Take<int32_t>();
  table.codes_bytes = in.Take<uint8_t>();
  table.values_bytes = in.Take<uint16_t>() % 16384;
  table.value_scales_bytes = in.Take<uint8_t>() % 64;
  if (in.Take<uint8_t>() & 1) FitBuffers(&table);

  const Block codes(table.codes_bytes), values(table.values_bytes), scales(table.value_scales_bytes);
  in.Bytes(codes.data.get(), codes.size);
  in.Bytes(values.data.get(), values.size);
  in.Bytes(scales.data.get(), scales.size);
  table.codes = codes.data.get();
  table.values = values.data.get();
  table.value_scales = scales.data.get();

  // Blocks of the table if it is valid, else any bytes.
  size_t blocks_bytes = 0, none = 0;
  const bool made =
      ee_prepare_bytes(&tagged, kMaxScratch, &blocks_bytes, &none) == EE_OK && (in.Take<uint8_t>() & 1) != 0;
  const Block blocks(made ? blocks_bytes : in.Take<uint16_t>() % 2048);
  in.Bytes(blocks.data.get(), blocks.size);
  if (made) {
    CHECK(ee_prepare(&tagged, blocks.data.get(), blocks.size, nullptr, 0, &tagged) == EE_OK);
  } else if ((in.Take<uint8_t>() & 3) != 0) {
    table.blocks = blocks.data.get();
    table.blocks_bytes = blocks.size;
  }

  const bool sound = ee_check(&tagged) == EE_OK;
  FuzzUses(in, tagged, table.num_embeddings, sound ? table.num_groups * table.group_width : 1);
  return 0;
}
