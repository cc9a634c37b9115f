// Fuzz target: hostile shapes, ranks and buffers of cores through the C ABI. Whatever the bytes say, the call
// must return, and must not touch anything outside the buffers, which are heap blocks of exactly the
// announced size.
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

// The same uses of the table with cores multiplied in advance, if anything is gained within any number of
// bytes.
void FuzzMerged(Reader& in, const ee_tt_table& table) {
  const size_t most = in.Take<uint8_t>() < 200 ? kMaxScratch : in.Take<size_t>();
  size_t bytes = 0, scratch_size = 0;
  const ee_status status = ee_tt_merge_bytes(&table, most, &bytes, &scratch_size);
  if (status != EE_OK || bytes == 0 || bytes > kMaxScratch || scratch_size > kMaxScratch) return;
  const size_t missing = in.Take<uint8_t>() < 200 ? 0 : 1 + in.Take<uint8_t>() % bytes;
  const Block memory(bytes - missing), scratch(scratch_size);
  ee_tt_table merged{};
  const ee_status made =
      ee_tt_merge(&table, memory.data.get(), memory.size, scratch.data.get(), scratch_size, &merged);
  CHECK(bytes <= most && (made == EE_OK || missing > 0));
  if (made != EE_OK) return;
  CHECK(merged.num_cores < table.num_cores && merged.num_embeddings == table.num_embeddings);
  FuzzGather<int64_t>(in, merged, ee_tt_scratch_bytes, ee_tt_gather_f32_i64);
  FuzzUses(in, merged, ee_tt_scratch_bytes, ee_tt_bag_f32_i64, ee_tt_logits_f32);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in(data, size);
  ee_tt_table table{};
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

  FuzzGather<int64_t>(in, table, ee_tt_scratch_bytes, ee_tt_gather_f32_i64);
  FuzzGather<int32_t>(in, table, ee_tt_scratch_bytes, ee_tt_gather_f32_i32);
  FuzzUses(in, table, ee_tt_scratch_bytes, ee_tt_bag_f32_i64, ee_tt_logits_f32);
  FuzzMerged(in, table);
  FuzzTopK(in, table, ee_tt_scratch_bytes, ee_tt_topk_scratch_bytes, ee_tt_topk_f32);
  return 0;
}
