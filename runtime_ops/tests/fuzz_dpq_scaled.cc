// Fuzz target: hostile scales, scale codes and unused columns of DPQ tables with row scales, through the C
// interface. For any input, the call must return and stay inside the buffers, which are heap blocks of
// exactly the stated size.
#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed::testing;

// Consecutive integers as values, for which there are kernels of their own.
void FillIntegers(const Block& values, int32_t first) {
  for (size_t k = 0; k < values.size / sizeof(float); ++k) {
    const float value = static_cast<float>(first + static_cast<int32_t>(k));
    std::memcpy(values.data.get() + k * sizeof(float), &value, sizeof(float));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_table tagged = Tagged(EE_DPQ_SCALED);
  ee_dpq_scaled_table& table = tagged.dpq_scaled;
  ee_dpq_table& plain = table.plain;
  const bool integers = (in.Take<uint8_t>() & 3) != 0;
  plain.num_embeddings = Number(in, (in.Take<uint8_t>() & 1) != 0 ? 12 : 90);
  plain.num_codes = integers ? int64_t{1} << (1 + in.Take<uint8_t>() % 8) : Number(in, 40);
  plain.num_groups = Number(in, (in.Take<uint8_t>() & 1) != 0 ? 10 : 70);
  plain.group_width = integers ? 1 : Number(in, 6);
  plain.padding_idx = Number(in, 14) - 1;
  plain.bits = in.Take<uint8_t>() < 240 ? SmallestBits(plain.num_codes) : in.Take<int32_t>();
  plain.shared = integers || (in.Take<uint8_t>() & 1) != 0;
  plain.value_type = integers ? EE_FLOAT32 : in.Take<uint8_t>() % 3;
  table.num_row_scales = Number(in, 9);
  table.unused_columns = integers ? in.Take<uint8_t>() % 32 == 0 : Number(in, 4);

  const bool fits = Small(plain.num_embeddings) && Small(plain.num_groups) && Small(plain.group_width) &&
                    Small(plain.bits) && plain.num_codes >= 0 && plain.num_codes <= 256;
  const int64_t codebooks = plain.shared ? 1 : plain.num_groups;
  const int64_t row_bytes = (plain.num_groups * (fits ? plain.bits : 1) + 7) / 8;
  const Block codes = TakeBlock(in, fits ? plain.num_embeddings * row_bytes : -1);
  const Block values =
      TakeBlock(in, fits ? codebooks * plain.num_codes * plain.group_width * BytesOf(plain.value_type) : -1);
  const Block value_scales = TakeBlock(in, fits ? codebooks * 4 : -1);
  const Block scale_codes = TakeBlock(in, fits ? plain.num_embeddings : -1);
  const Block scales = TakeBlock(in, Small(table.num_row_scales) ? table.num_row_scales * 4 : -1);
  if (integers) FillIntegers(values, in.Take<int16_t>());
  // Half of the tables have sound scale codes.
  if ((in.Take<uint8_t>() & 1) != 0 && Small(table.num_row_scales) && table.num_row_scales > 0) {
    for (size_t i = 0; i < scale_codes.size; ++i) {
      scale_codes.data.get()[i] = static_cast<uint8_t>(scale_codes.data.get()[i] % table.num_row_scales);
    }
  }
  plain.codes = codes.data.get(), plain.codes_bytes = codes.size;
  plain.values = values.data.get(), plain.values_bytes = values.size;
  plain.value_scales = value_scales.data.get(), plain.value_scales_bytes = value_scales.size;
  table.row_scale_codes = scale_codes.data.get(), table.row_scale_codes_bytes = scale_codes.size;
  table.row_scales = scales.data.get(), table.row_scales_bytes = scales.size;

  const bool sound = ee_check(&tagged) == EE_OK;
  const int64_t columns = plain.num_groups * plain.group_width - table.unused_columns;
  FuzzUses(in, tagged, plain.num_embeddings, sound ? columns : 1);
  return 0;
}
