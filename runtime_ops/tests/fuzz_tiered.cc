// Fuzz target: hostile maps, ranks and tiers of tiered tables, through the C interface. For any input, the
// call must return and stay inside the buffers, which are heap blocks of exactly the stated size.
#include <vector>

#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed::testing;

// Buffers of a tier.
struct TierBlocks {
  Block codes, values, scale_codes, scales;
};

TierBlocks TakeTier(Reader& in, int64_t columns, ee_dpq_scaled_table* tier) {
  ee_dpq_table& plain = tier->plain;
  const uint8_t kind = in.Take<uint8_t>();
  plain.num_embeddings = (kind != 7) + Number(in, (kind & 3) == 0 ? 198 : 12) % (int64_t{1} << 40);
  plain.num_codes = 2 + Number(in, 40) % 100000;
  plain.num_groups = (kind & 4) != 0    ? columns
                     : (kind & 8) != 0  ? 1
                     : columns % 2 == 0 ? columns / 2
                                        : columns;
  plain.group_width = kind == 11 ? Number(in, 6) : columns / plain.num_groups;
  plain.padding_idx = kind < 250 ? -1 : Number(in, 3);
  plain.bits = SmallestBits(plain.num_codes);
  plain.shared = (kind & 16) != 0;
  plain.value_type = in.Take<uint8_t>() % 2;
  tier->num_row_scales = (kind & 32) != 0 ? Number(in, 9) : 0;
  const bool fits = plain.num_embeddings >= 0 && plain.num_embeddings < 200 && Small(plain.num_groups) &&
                    Small(plain.group_width) && plain.num_codes >= 0 && plain.num_codes <= 256;
  const int64_t codebooks = plain.shared ? 1 : plain.num_groups;
  const int64_t row_bytes = fits ? (plain.num_groups * plain.bits + 7) / 8 : 0;
  TierBlocks blocks{
      TakeBlock(in, fits ? plain.num_embeddings * row_bytes : -1),
      TakeBlock(in, fits ? codebooks * plain.num_codes * plain.group_width * BytesOf(plain.value_type) : -1),
      TakeBlock(in, fits ? plain.num_embeddings : -1),
      TakeBlock(in, Small(tier->num_row_scales) ? tier->num_row_scales * 4 : -1)};
  plain.codes = blocks.codes.data.get(), plain.codes_bytes = blocks.codes.size;
  plain.values = blocks.values.data.get(), plain.values_bytes = blocks.values.size;
  tier->row_scale_codes = blocks.scale_codes.data.get(),
  tier->row_scale_codes_bytes = blocks.scale_codes.size;
  tier->row_scales = blocks.scales.data.get(), tier->row_scales_bytes = blocks.scales.size;
  return blocks;
}

// Ranks of the map, so that half of the tables have only few wrong places.
void CountRanks(const Block& map, const Block& ranks) {
  int32_t counts[4] = {};
  for (size_t block = 0; (block + 1) * 12 <= ranks.size; ++block) {
    std::memcpy(ranks.data.get() + block * 12, counts, 12);
    for (size_t i = block * 256; i < (block + 1) * 256 && i / 4 < map.size; ++i) {
      ++counts[map.data.get()[i / 4] >> i % 4 * 2 & 3];
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_table tagged = Tagged(EE_TIERED);
  ee_tiered_table& table = tagged.tiered;
  const uint8_t kind = in.Take<uint8_t>();
  const int64_t columns = 1 + in.Take<uint8_t>() % 12;
  std::vector<TierBlocks> blocks;
  ee_dpq_scaled_table tiers[3] = {};
  int64_t rows = 0;
  for (ee_dpq_scaled_table& tier : tiers) {
    blocks.push_back(TakeTier(in, columns, &tier));
    rows += Small(tier.plain.num_embeddings / 4) ? tier.plain.num_embeddings : 0;
  }
  const int64_t map_blocks = (rows + 255) / 256;
  const Block map = TakeBlock(in, map_blocks * 64), ranks = TakeBlock(in, map_blocks * 12);
  if ((kind & 8) != 0) CountRanks(map, ranks);
  table.tiers = tiers;
  table.tiers_bytes = in.Take<uint8_t>() < 250 ? sizeof(tiers) : in.Take<uint8_t>();
  table.tier_map = map.data.get();
  table.tier_map_bytes = (kind & 48) == 0 ? 0 : map.size;
  table.tier_ranks = ranks.data.get();
  table.tier_ranks_bytes = ranks.size;
  table.num_embeddings = in.Take<uint8_t>() < 240 ? rows : Number(in, 90);
  table.padding_idx = Number(in, 14) - 1;
  FuzzUses(in, tagged, table.num_embeddings, ee_check(&tagged) == EE_OK ? columns : 1);
  return 0;
}
