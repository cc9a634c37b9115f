// Fuzz target: hostile shapes, ranks and buffers of cores through the C interface. For any input, the call
// must return and stay inside the buffers, which are heap blocks of exactly the stated size.
#include <vector>

#include "tests/fuzz_input.h"

namespace {

using namespace edge_embed::testing;

// Sizes that mostly fit each other.
void TakeCores(Reader& in, ee_tt_table* table) {
  const int64_t ring = in.Take<uint8_t>() % 4 == 0 ? 2 : 1;
  int64_t rank = ring;
  for (int64_t k = 0; k < EE_MAX_CORES; ++k) {
    ee_tt_core& core = table->cores[k];
    core.rows = 1 + Number(in, 4);
    core.columns = 1 + Number(in, 3);
    core.rank_in = rank;
    rank = k == table->num_cores - 1 ? ring : 1 + Number(in, 4);
    core.rank_out = rank;
    if (in.Take<uint8_t>() >= 250) core.rank_in = Number(in, 4);
  }
}

int64_t ColumnsOf(const ee_tt_table& table) {
  int64_t columns = 1;
  for (int64_t k = 0; k < table.num_cores; ++k) columns *= table.cores[k].columns;
  return columns;
}

// The same uses of the prepared table, with any limit of bytes.
void FuzzMerged(Reader& in, const ee_table& table) {
  const size_t most = in.Take<uint8_t>() < 200 ? kMaxScratch : in.Take<size_t>();
  size_t bytes = 0, scratch_size = 0;
  const ee_status status = ee_prepare_bytes(&table, most, &bytes, &scratch_size);
  if (status != EE_OK || bytes == 0 || bytes > kMaxScratch || scratch_size > kMaxScratch) return;
  CHECK(bytes <= most);
  const size_t missing = in.Take<uint8_t>() < 200 ? 0 : 1 + in.Take<uint8_t>() % bytes;
  const Block memory(bytes - missing), scratch(scratch_size);
  ee_table merged{};
  const ee_status made =
      ee_prepare(&table, memory.data.get(), memory.size, scratch.data.get(), scratch_size, &merged);
  CHECK(made == EE_OK || missing > 0);
  if (made != EE_OK) return;
  CHECK(missing > 0 || merged.tt.num_cores < table.tt.num_cores);
  CHECK(merged.tt.num_embeddings == table.tt.num_embeddings);
  FuzzUses(in, merged, merged.tt.num_embeddings, ColumnsOf(table.tt));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_table tagged = Tagged(EE_TT);
  ee_tt_table& table = tagged.tt;
  table.num_cores = in.Take<uint8_t>() < 250 ? 2 + in.Take<uint8_t>() % 5 : Number(in, 9);
  table.num_embeddings = Number(in, 12);
  table.padding_idx = Number(in, 14) - 1;
  table.core_type = in.Take<uint8_t>() < 250 ? in.Take<uint8_t>() % 2 : in.Take<int32_t>();
  TakeCores(in, &table);

  std::vector<Block> blocks;
  for (ee_tt_core& core : table.cores) {
    const bool small = Small(core.rows) && Small(core.columns) && Small(core.rank_in) && Small(core.rank_out);
    const int64_t numbers = small ? core.rows * core.columns * core.rank_in * core.rank_out : -1;
    blocks.push_back(TakeBlock(in, numbers < 0 ? -1 : numbers * (table.core_type == EE_FLOAT16 ? 2 : 4)));
    core.data = blocks.back().data.get();
    core.bytes = blocks.back().size;
  }

  const bool sound = ee_check(&tagged) == EE_OK;
  FuzzUses(in, tagged, table.num_embeddings, sound ? ColumnsOf(table) : 1);
  FuzzMerged(in, tagged);
  return 0;
}
