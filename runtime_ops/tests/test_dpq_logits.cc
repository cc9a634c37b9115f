// Logits by each kernel: tables of products, permutations of many rows for codes of four bits, or rows that
// are computed and multiplied. The numbers of rows, codes and states select the kernel, so each has many
// cases.
#include <cstring>

#include "kernels/dpq/blocks.h"
#include "tests/dpq_case.h"
#include "tests/use_checks.h"

namespace edge_embed::testing {
namespace {

void CheckBatches(const DpqShape& shape, const std::vector<size_t>& batches) {
  WithAndWithoutBlocks(shape, [&](const DpqCase& made) {
    const std::string what = Context();
    for (const size_t batch : batches) {
      for (const ee_type type : {EE_FLOAT32, EE_FLOAT16}) {
        Context() = what + " batch=" + std::to_string(batch) + " output=" + std::to_string(type);
        CheckLogits(made, batch, type);
      }
    }
  });
}

void TestBatches() {
  const std::vector<size_t> batches = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64};
  CheckBatches({70, 16, 5, 3, false, 40}, batches);                      // products
  CheckBatches({7, 16, 5, 3, false, 2}, batches);                        // rows
  CheckBatches({70, 11, 8, 4, true, 69, 1, true, EE_FLOAT16}, batches);  // codes above num_codes-1
  CheckBatches({13, 11, 9, 7, false, kNoPadding, 3, true, EE_FLOAT16}, batches);
  CheckBatches({70, 11, 9, 7, false, 40, 3, true, EE_INT8}, batches);
  CheckBatches({7, 200, 3, 5, true, 2, 0, true, EE_INT8}, batches);
}

void TestGroupsAndWidths() {
  for (const int64_t groups : {1, 2, 7, 8, 9, 15, 16, 17, 24, 25, 33, 64}) {
    for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64}) {
      CheckBatches({33, 4, groups, width, false, 31}, {1, 3});
      CheckBatches({5, 4, groups, width, true}, {1, 3});
      CheckBatches({33, 4, groups, width, false, 31, 1, false, EE_INT8}, {1, 3});
    }
  }
}

void TestEveryBitWidth() {
  for (int bits = 1; bits <= 16; ++bits) {
    for (const int64_t rows : {3, 70, 1030}) CheckBatches({rows, int64_t{1} << bits, 3, 2, true}, {1, 2});
    if (bits > 1) CheckBatches({70, (int64_t{1} << bits) - 1, 3, 2, false, 5, 2, true}, {1, 2});
  }
}

// Many rows at once, around the sizes of registers and of transposed words.
void TestFourBits() {
  for (const int64_t groups : {1, 7, 8, 9, 16, 17, 63, 64, 65, 72, 128, 133}) {
    for (const int64_t width : {1, 3}) CheckBatches({67, 16, groups, width, false, 66}, {1, 4});
  }
  for (const int64_t width : {2, 4, 7, 8, 9, 15, 16, 17, 24}) {
    CheckBatches({64, 16, 9, width, true}, {1, 5});
    CheckBatches({64, 16, 9, width, false, 3, 3, false, EE_FLOAT16}, {1, 5});
    CheckBatches({64, 13, 9, width, false, 3, 3, true, EE_INT8}, {1, 5});
  }
  for (const int64_t num_codes : {9, 10, 15, 16}) {
    CheckBatches({80, num_codes, 13, 3, false, 64, 1, true}, {1, 2, 3, 4, 5, 8});
  }
  for (int64_t rows = 63; rows < 82; ++rows) CheckBatches({rows, 16, 65, 2, false, rows - 1}, {1, 4});
}

// Codes of one byte with a table of products larger than a first-level cache, around the sizes of blocks.
void TestBytes() {
  for (const int64_t groups : {32, 33, 40, 41, 64, 65, 71}) {
    CheckBatches({1290, 256, groups, 2, false, 300}, {1, 2});
  }
  CheckBatches({1024, 200, 70, 1, false, 1023, 1, true}, {1, 3});  // codes above num_codes-1
  for (const int64_t rows : {1279, 1280, 1281, 1312}) CheckBatches({rows, 256, 65, 1, false, rows - 1}, {1});
  const DpqCase made({1100, 256, 41, 2, false, 700});
  const dpq::Table table = made.table();
  const GuardedBuffer scratch = MakeScratch(table);
  std::vector<float> hidden(made.dim()), whole(1100), parts(1100);
  for (size_t c = 0; c < hidden.size(); ++c) hidden[c] = 1.0F / static_cast<float>(c + 3);
  size_t bad = 0;
  const auto run = [&](size_t begin, size_t end, std::vector<float>* logits) {
    CHECK(RunLogits(table, hidden.data(), 1, begin, end, Output{logits->data(), EE_FLOAT32}, Doubles(scratch),
                    &bad) == EE_OK);
  };
  run(0, 1100, &whole);
  for (size_t begin = 0; begin < 1100; begin += 100) run(begin, begin + 100, &parts);  // rows one at a time
  CHECK(std::memcmp(whole.data(), parts.data(), 1100 * sizeof(float)) == 0);
}

// Parts of the rows, around the sizes of blocks: each part is written, and nothing else.
void TestParts() {
  const auto check = [](const DpqCase& made) {
    const dpq::Table table = made.table();
    const GuardedBuffer scratch = MakeScratch(table);
    const std::vector<float> hidden(10 * made.dim(), 1.0F);
    std::vector<float> all(10 * 90);
    size_t bad = 0;
    CHECK(RunLogits(table, hidden.data(), 10, 0, 90, Output{all.data(), EE_FLOAT32}, Doubles(scratch),
                    &bad) == EE_OK);
    for (const size_t begin : std::vector<size_t>{0, 1, 15, 16, 31, 60}) {
      for (const size_t end : std::vector<size_t>{60, 61, 64, 75, 76, 90}) {
        std::vector<float> part(10 * 90, -7.0F);
        CHECK(RunLogits(table, hidden.data(), 10, begin, end, Output{part.data(), EE_FLOAT32},
                        Doubles(scratch), &bad) == EE_OK);
        for (size_t k = 0; k < part.size(); ++k) {
          const bool inside = k % 90 >= begin && k % 90 < end;
          CHECK(inside ? std::fabs(part[k] - all[k]) < 1e-5F : part[k] == -7.0F);
        }
      }
    }
  };
  for (const int64_t num_codes : {2, 16, 1024}) WithAndWithoutBlocks({90, num_codes, 3, 2}, check);
}

// Blocks follow their definition, and variants that use blocks read only these.
void TestBlocks() {
  for (const int64_t rows : {1, 15, 16, 17, 90}) {
    for (const int64_t groups : {1, 7, 8, 9, 64}) {
      const DpqCase made({rows, 16, groups, 2, false, kNoPadding, 0, false, EE_FLOAT32, true});
      const dpq::Table table = made.table();
      CHECK(dpq::BlocksBytes(table).saturated() == table.blocks_bytes);
      const GuardedBuffer blocks(table.blocks_bytes);
      std::memset(blocks.data(), 0xAA, table.blocks_bytes);
      dpq::MakeBlocks(table, blocks.data());
      CHECK(std::memcmp(blocks.data(), table.blocks, table.blocks_bytes) == 0);
    }
  }
  CHECK(dpq::BlocksBytes(DpqCase({90, 17, 8, 2}).table()).saturated() == 0);

  const DpqCase made({90, 16, 8, 2}), other({90, 16, 8, 2, false, kNoPadding, 0, false, EE_FLOAT32, true}, 2);
  dpq::Table table = made.table();
  const LogitsKernel<dpq::Table>& kernel = KernelsOf(*Tested(), table).logits;
  const uint64_t wanted = kernel.Blocks(table).saturated();
  CHECK(wanted == (Tested()->name == std::string("avx512") ? other.table().blocks_bytes : 0));
  CHECK(kernel.Blocks(DpqCase({90, 17, 8, 2}).table()).saturated() == 0);
  const std::vector<float> hidden(made.dim(), 1.0F);
  const GuardedBuffer scratch = MakeScratch(table);
  const auto logits = [&] {
    std::vector<float> all(90);
    size_t bad = 0;
    CHECK(RunLogits(table, hidden.data(), 1, 0, 90, Output{all.data(), EE_FLOAT32}, Doubles(scratch), &bad) ==
          EE_OK);
    return all;
  };
  const std::vector<float> without = logits();
  table.blocks = other.table().blocks;
  table.blocks_bytes = other.table().blocks_bytes;
  CHECK((logits() != without) == (wanted != 0));
}

// A state with NaN does not change other states, and the padding row treats it like any other row.
void TestNotANumberStaysInItsState() {
  for (const int64_t rows : {10, 100}) {
    const DpqCase made({rows, 4, 3, 2, false, 1});
    const GuardedBuffer scratch = MakeScratch(made.table());
    std::vector<float> hidden(3 * made.dim(), 1.0F);
    hidden[made.dim() + 2] = std::numeric_limits<float>::infinity();
    const size_t count = static_cast<size_t>(rows);
    std::vector<float> logits(3 * count);
    size_t bad = 0;
    CHECK(RunLogits(made.table(), hidden.data(), 3, 0, count, Output{logits.data(), EE_FLOAT32},
                    Doubles(scratch), &bad) == EE_OK);
    for (size_t id = 0; id < count; ++id) {
      CHECK(std::isfinite(logits[id]) && std::isfinite(logits[2 * count + id]));
      CHECK(!std::isfinite(logits[count + id]));
    }
    CHECK(std::isnan(logits[count + 1]));
    CHECK(logits[1] == 0.0F && !std::signbit(logits[1]));
  }
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  ForEachVariant([] {
    TestBatches();
    TestGroupsAndWidths();
    TestEveryBitWidth();
    TestFourBits();
    TestBytes();
    TestParts();
    TestBlocks();
    TestNotANumberStaysInItsState();
  });
  return 0;
}
