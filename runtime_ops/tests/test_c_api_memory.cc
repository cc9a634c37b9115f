// The functions of the C ABI for memory that makes uses faster.
#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

std::vector<float> AllRows(const ee_tt_table& table, size_t columns) {
  size_t bytes = 0;
  CHECK(ee_tt_scratch_bytes(&table, &bytes) == EE_OK);
  const GuardedBuffer scratch(bytes);
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < table.num_embeddings; ++id) ids.push_back(id);
  std::vector<float> rows(ids.size() * columns);
  CHECK(ee_tt_gather_f32_i64(&table, ids.data(), table.num_embeddings, rows.data(),
                             rows.size() * sizeof(float), scratch.data(), bytes, nullptr) == EE_OK);
  return rows;
}

void TestMergedCores() {
  const TtCase made({{2, 3, 2}, {3, 2, 4}, {1, 4, 5, 1}, 11, EE_FLOAT16, 3});
  const ee_tt_table table = ToC(made.table());
  size_t bytes = 99, scratch_bytes = 99;
  CHECK(ee_tt_merge_bytes(&table, 0, &bytes, &scratch_bytes) == EE_OK && bytes == 0 && scratch_bytes == 0);
  CHECK(ee_tt_merge_bytes(&table, SIZE_MAX, &bytes, &scratch_bytes) == EE_OK);
  CHECK(bytes == (6 * 4 * 8 + 2 * 3 * 4) * sizeof(float));
  const GuardedBuffer memory(bytes), scratch(scratch_bytes);
  ee_tt_table merged{};
  CHECK(ee_tt_merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes, &merged) == EE_OK);
  CHECK(merged.num_cores == 2 && merged.core_type == EE_FLOAT32);
  CHECK(merged.num_embeddings == 11 && merged.padding_idx == 3 && merged.cores[2].data == nullptr);
  const std::vector<float> rows = AllRows(table, 24), same = AllRows(merged, 24);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double magnitude = made.Row(static_cast<int64_t>(i / 24), true)[i % 24];
    CHECK(std::fabs(static_cast<double>(rows[i]) - static_cast<double>(same[i])) <=
          std::ldexp(magnitude, -20));
  }

  const auto merge = [&](const ee_tt_table* from, void* to, size_t size, void* work, size_t work_size,
                         ee_tt_table* into) { return ee_tt_merge(from, to, size, work, work_size, into); };
  ee_tt_table untouched{};
  CHECK(merge(&table, memory.data(), bytes - 1, scratch.data(), scratch_bytes, &untouched) ==
        EE_SHORT_OUTPUT);
  CHECK(merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes - 1, &untouched) ==
        EE_SHORT_SCRATCH);
  CHECK(merge(&table, nullptr, bytes, scratch.data(), scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(merge(&table, memory.data(), bytes, nullptr, scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(merge(&table, memory.data(), bytes, scratch.data(), scratch_bytes, nullptr) == EE_NULL_POINTER);
  CHECK(merge(nullptr, memory.data(), bytes, scratch.data(), scratch_bytes, &untouched) == EE_NULL_POINTER);
  CHECK(untouched.num_cores == 0);
  CHECK(ee_tt_merge_bytes(nullptr, 1, &bytes, &scratch_bytes) == EE_NULL_POINTER);
  CHECK(ee_tt_merge_bytes(&table, 1, nullptr, &scratch_bytes) == EE_NULL_POINTER);
  CHECK(ee_tt_merge_bytes(&table, 1, &bytes, nullptr) == EE_NULL_POINTER);
  ee_tt_table broken = table;
  broken.cores[1].rank_in = 3;
  CHECK(ee_tt_merge_bytes(&broken, 1, &bytes, &scratch_bytes) == EE_BAD_RANKS);
  CHECK(merge(&broken, memory.data(), bytes, scratch.data(), scratch_bytes, &untouched) == EE_BAD_RANKS);
}

// Logits and the largest of them are the same with blocks.
void TestBlocks() {
  const DpqCase made({90, 16, 9, 2, false, 70});
  ee_dpq_table table = ToC(made.table());
  size_t bytes = 1;
  CHECK(ee_dpq_blocks_bytes(nullptr, &bytes) == EE_NULL_POINTER);
  CHECK(ee_dpq_blocks_bytes(&table, nullptr) == EE_NULL_POINTER);
  CHECK(ee_dpq_blocks_bytes(&table, &bytes) == EE_OK);
  CHECK(bytes == (ee_isa() == std::string("avx512") ? 6 * 2 * 64 : 0));
  std::vector<unsigned char> blocks(bytes + 1);
  CHECK(ee_dpq_make_blocks(nullptr, blocks.data(), bytes) == EE_NULL_POINTER);
  CHECK(ee_dpq_make_blocks(&table, nullptr, bytes) == (bytes == 0 ? EE_OK : EE_NULL_POINTER));
  if (bytes > 0) CHECK(ee_dpq_make_blocks(&table, blocks.data(), bytes - 1) == EE_SHORT_BLOCKS);
  CHECK(ee_dpq_make_blocks(&table, blocks.data() + 1, bytes) == EE_OK);

  size_t scratch_bytes = 0;
  CHECK(ee_dpq_scratch_bytes(&table, &scratch_bytes) == EE_OK);
  const GuardedBuffer scratch(scratch_bytes);
  const std::vector<float> hidden(2 * made.dim(), 0.5F);
  const auto logits = [&](std::vector<float>* out) {
    return ee_dpq_logits_f32(&table, hidden.data(), 2, out->data(), out->size() * sizeof(float),
                             scratch.data(), scratch_bytes, nullptr);
  };
  std::vector<float> without(2 * 90), with(2 * 90);
  CHECK(logits(&without) == EE_OK);
  table.blocks = blocks.data() + 1;
  CHECK(logits(&with) == EE_OK && with == without);  // of no bytes
  table.blocks_bytes = 6 * 2 * 64 - 1;
  CHECK(logits(&with) == EE_SHORT_BLOCKS);
  table.blocks_bytes = 6 * 2 * 64;
  CHECK(logits(&with) == EE_OK && with == without);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestMergedCores();
  TestBlocks();
  return 0;
}
