// Preparation of a table by the C interface.
#include "tests/c_tables.h"

namespace edge_embed::testing {
namespace {

std::vector<float> AllRows(const ee_table& table, size_t columns) {
  const UseScratch scratch(table, EE_GATHER);
  std::vector<int64_t> numbers;
  for (int64_t id = 0; id < table.tt.num_embeddings; ++id) numbers.push_back(id);
  const ee_ids ids = ToC(numbers);
  std::vector<float> rows(numbers.size() * columns);
  CHECK(ee_gather(&table, &ids, rows.data(), rows.size() * sizeof(float), scratch.data(), scratch.size(),
                  nullptr) == EE_OK);
  return rows;
}

void TestMergedCores() {
  const TtCase made({{2, 3, 2}, {3, 2, 4}, {1, 4, 5, 1}, 11, EE_FLOAT16, 3});
  const ee_table table = ToC(made.table());
  size_t bytes = 99, scratch_bytes = 99;
  CHECK(ee_prepare_bytes(&table, 0, &bytes, &scratch_bytes) == EE_OK && bytes == 0 && scratch_bytes == 0);
  CHECK(ee_prepare_bytes(&table, SIZE_MAX, &bytes, &scratch_bytes) == EE_OK);
  CHECK(bytes == (6 * 4 * 8 + 2 * 3 * 4) * sizeof(float));
  const GuardedBuffer memory(bytes), scratch(scratch_bytes);
  ee_table merged{};
  CHECK(ee_prepare(&table, memory.data(), bytes, scratch.data(), scratch_bytes, &merged) == EE_OK);
  CHECK(merged.method == EE_TT && merged.tt.num_cores == 2 && merged.tt.core_type == EE_FLOAT32);
  CHECK(merged.tt.num_embeddings == 11 && merged.tt.padding_idx == 3 && merged.tt.cores[2].data == nullptr);
  const std::vector<float> rows = AllRows(table, 24), same = AllRows(merged, 24);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double magnitude = made.Row(static_cast<int64_t>(i / 24), true)[i % 24];
    CHECK(std::fabs(static_cast<double>(rows[i]) - static_cast<double>(same[i])) <=
          std::ldexp(magnitude, -20));
  }
  ee_table in_place = table;
  CHECK(ee_prepare(&in_place, memory.data(), bytes, scratch.data(), scratch_bytes, &in_place) == EE_OK);
  CHECK(in_place.tt.num_cores == 2 && AllRows(in_place, 24) == same);
}

// With too few bytes, the table stays the same. Other errors return a status, and nothing is written.
void TestBadArguments() {
  const TtCase made({{2, 3, 2}, {3, 2, 4}, {1, 4, 5, 1}, 11, EE_FLOAT16, 3});
  const ee_table table = ToC(made.table());
  size_t bytes = 0, scratch_bytes = 0;
  CHECK(ee_prepare_bytes(&table, SIZE_MAX, &bytes, &scratch_bytes) == EE_OK);
  const GuardedBuffer memory(bytes), scratch(scratch_bytes);
  ee_table merged{};
  CHECK(ee_prepare(&table, memory.data(), bytes, scratch.data(), scratch_bytes - 1, &merged) ==
        EE_SHORT_SCRATCH);
  CHECK(ee_prepare(&table, nullptr, bytes, scratch.data(), scratch_bytes, &merged) == EE_NULL_POINTER);
  CHECK(ee_prepare(&table, memory.data(), bytes, nullptr, scratch_bytes, &merged) == EE_NULL_POINTER);
  CHECK(ee_prepare(&table, memory.data(), bytes, scratch.data(), scratch_bytes, nullptr) == EE_NULL_POINTER);
  CHECK(ee_prepare_bytes(&table, 1, nullptr, &scratch_bytes) == EE_NULL_POINTER);
  CHECK(ee_prepare_bytes(&table, 1, &bytes, nullptr) == EE_NULL_POINTER);
  ee_table broken = table;
  broken.tt.cores[1].rank_in = 3;
  CHECK(ee_prepare_bytes(&broken, 1, &bytes, &scratch_bytes) == EE_BAD_RANKS);
  CHECK(ee_prepare(&broken, memory.data(), bytes, scratch.data(), scratch_bytes, &merged) == EE_BAD_RANKS);
  CHECK(merged.version == 0);
  CHECK(ee_prepare(&table, memory.data(), bytes - 1, scratch.data(), scratch_bytes, &merged) == EE_OK);
  CHECK(merged.tt.num_cores == 3 && merged.tt.cores[0].data == table.tt.cores[0].data);
}

// Logits are the same with blocks.
void TestBlocks() {
  const DpqCase made({90, 16, 9, 2, false, 70});
  const ee_table table = ToC(made.table());
  size_t bytes = 1, none = 1;
  CHECK(ee_prepare_bytes(&table, SIZE_MAX, &bytes, &none) == EE_OK && none == 0);
  CHECK(bytes == (ee_isa() == std::string("avx512") ? 6 * 2 * 64 : 0));
  std::vector<unsigned char> memory(bytes + 1);
  ee_table blocked{};
  CHECK(ee_prepare(&table, memory.data() + 1, bytes, nullptr, 0, &blocked) == EE_OK);
  CHECK(blocked.dpq.blocks_bytes == bytes && blocked.dpq.codes == table.dpq.codes);
  if (bytes > 0) {
    CHECK(ee_prepare(&table, nullptr, bytes, nullptr, 0, &blocked) == EE_NULL_POINTER);
    CHECK(ee_prepare_bytes(&table, bytes - 1, &none, &none) == EE_OK && none == 0);
    ee_table same{};
    CHECK(ee_prepare(&table, memory.data(), bytes - 1, nullptr, 0, &same) == EE_OK);
    CHECK(same.dpq.blocks == nullptr && same.dpq.blocks_bytes == 0);
  }

  const UseScratch scratch(table, EE_LOGITS);
  const std::vector<float> hidden(2 * made.dim(), 0.5F);
  const auto logits = [&](const ee_table& of, std::vector<float>* out) {
    return ee_logits(&of, hidden.data(), 2, out->data(), out->size() * sizeof(float), scratch.data(),
                     scratch.size(), nullptr);
  };
  std::vector<float> without(2 * 90), with(2 * 90);
  CHECK(logits(table, &without) == EE_OK);
  CHECK(logits(blocked, &with) == EE_OK && with == without);
  blocked.dpq.blocks = memory.data() + 1;
  blocked.dpq.blocks_bytes = 0;
  CHECK(logits(blocked, &with) == EE_OK && with == without);  // a block of no bytes
  blocked.dpq.blocks_bytes = 6 * 2 * 64 - 1;
  CHECK(logits(blocked, &with) == EE_SHORT_BLOCKS);
}

// A method without preparation.
void TestNothingToGain() {
  const AntCase made({5, 4, 3});
  const ee_table table = ToC(made.table());
  size_t bytes = 99, scratch_bytes = 99;
  CHECK(ee_prepare_bytes(&table, SIZE_MAX, &bytes, &scratch_bytes) == EE_OK);
  CHECK(bytes == 0 && scratch_bytes == 0);
  ee_table same{};
  CHECK(ee_prepare(&table, nullptr, 0, nullptr, 0, &same) == EE_OK);
  CHECK(same.method == EE_ANT && same.ant.anchors == table.ant.anchors);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestMergedCores();
  TestBadArguments();
  TestBlocks();
  TestNothingToGain();
  return 0;
}
